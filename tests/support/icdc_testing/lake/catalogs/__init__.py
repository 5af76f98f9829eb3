"""Catalogs of every kind, honest and hostile, and readers confined as in the pod."""
