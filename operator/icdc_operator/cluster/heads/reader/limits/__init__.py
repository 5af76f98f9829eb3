"""Limits of a reader of catalogs: the addresses, files and resources that its process may use."""
