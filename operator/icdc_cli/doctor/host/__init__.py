"""A host and the pipeline in a file, as `icdc doctor -f` examines them."""
