"""The objects of a run on a cluster: a ConfigMap with its request, and a SparkApplication.

    launch.Launch --config_map--> ConfigMap           mounted into the driver
                  --application--> SparkApplication   templates < volumes, metadata, pod_paths
                                                      refused_values < shapes < scalars

Pure functions from values to plain dicts. Nothing here reads a clock or a cluster, or knows a
client library: an adapter sends what these functions return.
"""
