"""Data and delete files that Iceberg's own Java writers write."""
