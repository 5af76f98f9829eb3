"""Brings one table to its current snapshot: export, changelog batches, and checks before them."""
