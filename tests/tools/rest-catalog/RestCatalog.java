import java.util.HashMap;
import java.util.Map;

import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

import java.net.InetSocketAddress;

/**
 * An Iceberg REST catalog for tests: {@code RestCatalog HOST PORT [property=value ...]}.
 *
 * <p>The servlet is the one of Iceberg's own tests; the properties are those of the JDBC catalog
 * behind it.
 */
public final class RestCatalog {
    private RestCatalog() {}

    public static void main(String[] args) throws Exception {
        Map<String, String> properties = new HashMap<>();
        properties.put(CatalogProperties.CATALOG_IMPL, "org.apache.iceberg.jdbc.JdbcCatalog");
        properties.put("jdbc.schema-version", "V1");
        for (int i = 2; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            properties.put(args[i].substring(0, equals), args[i].substring(equals + 1));
        }
        ServletContextHandler handler = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
        handler.addServlet(
            new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(
                CatalogUtil.buildIcebergCatalog("behind", properties, new Configuration())))),
            "/*");
        Server server = new Server(new InetSocketAddress(args[0], Integer.parseInt(args[1])));
        server.setHandler(handler);
        server.start();
        server.join();
    }
}
