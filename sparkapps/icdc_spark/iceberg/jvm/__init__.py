"""The border to Spark's JVM: calls by py4j, sessions, and foreign errors mapped to ours."""
