"""Runs of the application: in the test's Spark, as child processes, and killed."""
