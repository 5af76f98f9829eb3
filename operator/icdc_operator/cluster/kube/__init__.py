"""The API server: one connection, its errors in our terms, and the kinds that are spoken of.

Knows Kubernetes and nothing of pipelines' meaning; everything else in `cluster` stands on it.
"""
