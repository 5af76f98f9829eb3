"""Decides which tables of a run are worked on at the same time, and how long a run stays."""
