"""Starts the image: turns the arguments and variables of Spark on Kubernetes into a command.

The contract is that of Spark's own image: the first argument is `driver` or `executor`, the rest
stands in arguments and variables. Written for the start of a container, so it imports neither
Spark nor anything else that takes time, and needs no shell.
"""
