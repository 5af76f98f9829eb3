"""Finds the files that differ between two snapshots, and what delete files changed in them."""
