"""The loop: watches put keys of pipelines into a queue, and workers reconcile them one by one.

    informer, watching  --events-->  queue  --key-->  workers  -->  reconciler  -->  posting
    relist, watch_age   --lists--->    ^                             | asks
                                       +-------- wakes ---------  admission, slots

Level-based: a lost or doubled event changes when a pipeline is reconciled, never the result.
"""
