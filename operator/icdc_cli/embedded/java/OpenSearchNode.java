import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;

import org.opensearch.Version;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;

/**
 * Runs one OpenSearch node from plain jars: {@code OpenSearchNode HOME watch|detach [key=value ...]}.
 *
 * <p>The node writes HOME/node.port once it answers, and HOME/node.pid while it lives. It stops on
 * SIGTERM and, with {@code watch}, when standard input ends: that is how a node learns that the
 * process that started it is gone. Compiles against 2.x and 3.x.
 */
public final class OpenSearchNode {
    private static final List<String> MODULES = List.of(
        "org.opensearch.transport.Netty4",
        "org.opensearch.analysis.common.CommonAnalysis",
        "org.opensearch.index.mapper.MapperExtras",
        "org.opensearch.index.reindex.Reindex",
        "org.opensearch.painless.Painless");

    private OpenSearchNode() {}

    /** Opens the constructor that takes plugins from the class path. */
    private static final class ClasspathNode extends Node {
        // Raw on purpose: a Collection of Class in 2.x, of PluginInfo in 3.x, with one erasure.
        @SuppressWarnings({"unchecked", "rawtypes"})
        ClasspathNode(Environment environment, Collection plugins) {
            super(environment, plugins, true);
        }
    }

    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]);
        boolean watch = args[1].equals("watch");
        Settings.Builder settings = Settings.builder().put("path.home", home.toString());
        for (int i = 2; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            settings.put(args[i].substring(0, equals), args[i].substring(equals + 1));
        }
        Node node = new ClasspathNode(
            InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), home, () -> "embedded"),
            plugins());
        Path pidFile = home.resolve("node.pid");
        Path portFile = home.resolve("node.port");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node, portFile, pidFile)));
        node.start();
        write(pidFile, ProcessHandle.current().pid());
        write(portFile, node.injector().getInstance(HttpServerTransport.class)
            .boundAddress().publishAddress().getPort());
        if (watch) {
            while (System.in.read() >= 0) {
                // Nobody writes; only the end of the stream means something.
            }
            System.exit(0);
        }
        Thread.currentThread().join();
    }

    private static List<Object> plugins() throws ClassNotFoundException {
        List<Object> plugins = new ArrayList<>();
        for (String module : MODULES) {
            Class<?> plugin = plugin(module);
            plugins.add(Version.CURRENT.major < 3
                ? plugin
                : new PluginInfo(plugin.getName(), "embedded", "NA", Version.CURRENT, "11",
                    plugin.getName(), null, List.of(), false));
        }
        return plugins;
    }

    /** 3.x renamed ...Plugin to ...ModulePlugin. */
    private static Class<?> plugin(String module) throws ClassNotFoundException {
        try {
            return Class.forName(module + "ModulePlugin");
        } catch (ClassNotFoundException renamed) {
            return Class.forName(module + "Plugin");
        }
    }

    private static void write(Path file, long number) throws IOException {
        Path scratch = file.resolveSibling(file.getFileName() + ".new");
        Files.writeString(scratch, Long.toString(number));
        Files.move(scratch, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    private static void close(Node node, Path... files) {
        try {
            for (Path file : files) {
                Files.deleteIfExists(file);
            }
            node.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
