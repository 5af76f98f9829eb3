"""The operator under test: what it decides, how it acts on a cluster, and how it is killed."""
