import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.index.mapper.MapperExtrasPlugin;
import org.opensearch.index.reindex.ReindexPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * Runs the OpenSearch node of a pod: {@code SearchPod HOME}.
 *
 * <p>Variables with a dot in their name are settings, as the entry point of OpenSearch's own image
 * has it. There is no security plugin, so what disables it says nothing. Analyzers of languages are
 * left out: the Java of our Spark image has not all that theirs for Thai needs.
 */
public final class SearchPod {
    private SearchPod() {}

    /** Opens the constructor that takes plugins from the class path. */
    private static final class ClasspathNode extends Node {
        ClasspathNode(Environment environment, Collection<Class<? extends Plugin>> plugins) {
            super(environment, plugins, true);
        }
    }

    public static void main(String[] args) throws Exception {
        Settings.Builder settings = Settings.builder()
            .put("path.home", args[0])
            .put("path.data", args[0] + "/data")
            .put("path.logs", args[0] + "/data")
            .put("network.host", "0.0.0.0")
            .put("http.port", "9200")
            .put("http.type", "netty4")
            .put("transport.type", "netty4");
        System.getenv().forEach((name, value) -> {
            if (name.matches("[a-z0-9_]+\\.[a-z0-9_.]+")) {
                settings.put(name, value);
            }
        });
        Node node = new ClasspathNode(
            InternalSettingsPreparer.prepareEnvironment(
                settings.build(), Map.of(), null, () -> "pod"),
            List.of(
                Netty4Plugin.class, MapperExtrasPlugin.class, ReindexPlugin.class,
                PainlessPlugin.class));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
        node.start();
        new CountDownLatch(1).await();
    }

    private static void close(Node node) {
        try {
            node.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
