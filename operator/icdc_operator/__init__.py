"""Decides what a pipeline needs next and has it done on a cluster: what runs in the operator's pod.

It never reads a row. What it knows of a table it has from the application's reports.
"""
