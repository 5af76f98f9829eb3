"""A cluster and the pipelines of a namespace, as `icdc doctor` examines them."""
