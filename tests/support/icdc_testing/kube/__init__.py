"""A real API server on loopback, kubectl, and what tests store in it."""
