"""Waits for states, processes that must end, and the seed of random choices."""
