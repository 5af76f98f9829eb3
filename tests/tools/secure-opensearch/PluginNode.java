import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.opensearch.Version;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;

/**
 * Runs one OpenSearch node, of 2.x or 3.x, with plugins of the class path:
 * {@code PluginNode HOME CLASS,CLASS,... [key=value ...]}.
 *
 * <p>It ends when its standard input closes, so it never outlives its parent.
 */
public class PluginNode extends Node {
    // Raw on purpose: a Collection of Class in 2.x, of PluginInfo in 3.x, with one erasure.
    @SuppressWarnings({"unchecked", "rawtypes"})
    private PluginNode(Environment environment, List plugins) {
        super(environment, plugins, true);
    }

    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]);
        Settings.Builder settings = Settings.builder().put("path.home", home.toString());
        for (int i = 2; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            settings.put(args[i].substring(0, equals), args[i].substring(equals + 1));
        }
        List<Object> plugins = new ArrayList<>();
        for (String name : args[1].split(",")) {
            Class<?> plugin = plugin(name);
            plugins.add(Version.CURRENT.major < 3
                ? plugin
                : new PluginInfo(plugin.getName(), "tested", "NA", Version.CURRENT, "11",
                    plugin.getName(), null, List.of(), false));
        }
        Node node = new PluginNode(
            InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), home, () -> "plugins"),
            plugins);
        node.start();
        while (System.in.read() >= 0) {
            // Nobody writes; only the end of the stream means something.
        }
        System.exit(0);
    }

    /** Some are named ...ModulePlugin in one line and ...Plugin in another. */
    private static Class<?> plugin(String name) throws ClassNotFoundException {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException renamed) {
            return Class.forName(name.replace("ModulePlugin", "Plugin"));
        }
    }
}
