"""The API of iceberg-cdc-operator: the custom resource, its status, the run border, the errors.

Both sides import it: the operator, which decides, and the Spark application, which moves rows.
It knows neither Kubernetes' client nor Spark nor OpenSearch.
"""

__version__ = "0.1.0"
