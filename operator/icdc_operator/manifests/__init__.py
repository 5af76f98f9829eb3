"""What a run is made of on a cluster: a ConfigMap with its request and a SparkApplication.

Pure functions from values to plain dicts. Nothing here reads a clock, a file or a cluster, or
knows a client library: an adapter sends what these functions return.
"""
