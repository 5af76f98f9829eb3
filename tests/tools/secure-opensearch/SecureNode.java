import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;

/**
 * Runs one OpenSearch 2.x node with its plugins security and k-NN: {@code SecureNode HOME [key=value ...]}.
 *
 * <p>It ends when its standard input closes, so it never outlives its parent.
 */
public class SecureNode extends Node {
    private static final List<String> PLUGINS = List.of(
        "org.opensearch.transport.Netty4ModulePlugin",
        "org.opensearch.analysis.common.CommonAnalysisModulePlugin",
        "org.opensearch.index.mapper.MapperExtrasModulePlugin",
        "org.opensearch.index.reindex.ReindexModulePlugin",
        "org.opensearch.geo.GeoModulePlugin",
        "org.opensearch.ingest.common.IngestCommonModulePlugin",
        "org.opensearch.knn.plugin.KNNPlugin",
        "org.opensearch.security.OpenSearchSecurityPlugin",
        "org.opensearch.painless.PainlessModulePlugin");

    // Raw on purpose: the constructor takes a Collection of Class in 2.x.
    @SuppressWarnings({"unchecked", "rawtypes"})
    private SecureNode(Environment environment, List plugins) {
        super(environment, plugins, true);
    }

    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]);
        Settings.Builder settings = Settings.builder().put("path.home", home.toString());
        for (int i = 1; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            settings.put(args[i].substring(0, equals), args[i].substring(equals + 1));
        }
        List<Class<?>> plugins = new ArrayList<>();
        for (String name : PLUGINS) {
            plugins.add(plugin(name));
        }
        Node node = new SecureNode(
            InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), home, () -> "secure"),
            plugins);
        node.start();
        while (System.in.read() >= 0) {
            // Nobody writes; only the end of the stream means something.
        }
        System.exit(0);
    }

    /** 2.x names some ...ModulePlugin and others ...Plugin. */
    private static Class<?> plugin(String name) throws ClassNotFoundException {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException renamed) {
            return Class.forName(name.replace("ModulePlugin", "Plugin"));
        }
    }
}
