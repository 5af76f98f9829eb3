"""Scenarios of tables: what happens to them and what must be in the index."""
