"""The status of a pipeline: tables, runs, conditions, and what a person may ask for."""
