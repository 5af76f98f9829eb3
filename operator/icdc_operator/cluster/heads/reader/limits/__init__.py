"""Limits of a reader of catalogs: the addresses, files, resources and trust of its process."""
