"""In place of a cluster: an API server in a dictionary, and a pipeline in memory."""
