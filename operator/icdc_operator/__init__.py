"""Decides what a pipeline needs next and has it done: reconcile core, local runner, command line.

It never reads a row. What it knows of a table it has from the application's reports.
"""
