"""What a run on one host needs that Python does not bring: a JDK, jars, an OpenSearch node.

Nothing in here knows pipelines, tables or Spark; callers ask for a set of jars, a JDK or a node.
"""
