"""Explain each word of statuses, conditions, Events, alerts and metrics: meaning, who acts, cure.

    docstrings of enums, errors and metrics  +  cures and texts here  ->  lookup  ->  icdc explain
                                                                                  ->  docs/words.md

A text that code already has as a docstring or as the help of a metric is read from there and is
not repeated. Nothing here asks a cluster or imports what the operator needs.
"""
