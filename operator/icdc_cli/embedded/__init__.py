"""Provide what Python does not bring for a run on one host: a JDK, jars, an OpenSearch node.

The promise of `icdc run` and `icdc demo` is a Python package and a JDK, and nothing else to install
or configure. What else is needed is found or fetched here, once, and cached for all checkouts:

    jdk                        finds the JDKs of this machine        starts nothing
    maven, jar_lock, jars      fetch jars, compare them with a lock  a cache, one folder for a set
    launcher, opensearch_node  compile, start and stop a node        a JVM on loopback
    node_files                 the folder of a node                  who wrote it, who runs on it
    lake                       Spark that writes tables              for the demo and tests
    class_data                 quicker starts of Spark's JVM         may be missing

Nothing in here knows pipelines, tables or Spark; callers ask for a set of jars, a JDK or a node.
"""
