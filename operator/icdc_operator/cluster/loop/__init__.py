"""The loop: watches put names of pipelines into a queue, and workers reconcile them one by one.

Level-based: what was missed or doubled changes nothing but the moment.
"""
