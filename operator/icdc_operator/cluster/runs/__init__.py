"""Pipelines and their runs as objects of a cluster: what is seen of them, what is done to them.

Turns objects into what `icdc_operator.core.decide` looks at, and its actions into calls.
"""
