"""The API server: one connection, its errors in our terms, and the kinds of objects in use.

The lowest floor of `cluster`. It knows Kubernetes, and must not know what a pipeline means.
"""
