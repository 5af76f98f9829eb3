"""The kind of object that a run is created as, apart from how one is built.

Whoever only names it, such as a client of the API server, need not import the models of a spec.
"""

API_VERSION = "sparkoperator.k8s.io/v1beta2"
KIND = "SparkApplication"
