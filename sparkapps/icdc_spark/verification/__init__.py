"""Compares an index with its table, repairs it, and answers what a person asks about it."""
