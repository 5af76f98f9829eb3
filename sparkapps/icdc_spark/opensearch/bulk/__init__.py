"""Writes the rows of a batch with bulk requests, from the driver and from the workers."""
