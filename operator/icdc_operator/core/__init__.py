"""The reconcile core: from what was observed of a pipeline to the next step. Pure, no I/O.

    observed.Observed -> decide -> observed.Decision      for cluster and local runs alike
    decide            -> planning -> schedule, run_log    which run comes next, and when
                      -> progress, retry                  what a report or a failure means
                      -> asks, comparisons, resyncs       what people ask for
                      -> deletion                         how a pipeline ends
                      -> conditions                       what people and tools read
    events                                                from two statuses, for people

Must not know Kubernetes, processes, a clock or a catalog.
"""
