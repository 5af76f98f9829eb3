"""The border to Spark's JVM: py4j calls, sessions, and foreign errors mapped to ours."""
