"""What clients of catalogs in the JVM get beside what users set: time-outs and proxies."""
