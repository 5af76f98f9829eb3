"""The reconcile core: from what was observed of a pipeline to the next step. Pure, no I/O.

    observed.Observed -> decide -> observed.Decision      for cluster and local runs alike
    decide            -> planning -> schedule, run_log    which run comes next, and when
                      -> progress, retry                  what a report or a failure means
                      -> asks, comparisons, resyncs       what people ask for
                      -> deletion                         how a pipeline ends
                      -> conditions                       what people and tools read
    events                                                from two statuses, for people

One run, decision by decision; nothing but the status goes from one to the next:

    status.currentRun      observed                        new status.currentRun    action, again in
    -                      a table has a new snapshot      shop-c7-1 Planned        -, 0 s
    shop-c7-1 Planned      nothing of that run             (unchanged)              CreateRun, 5 s
    shop-c7-1 Planned      its application, no driver yet  shop-c7-1 Submitted      -, 5 s
    shop-c7-1 Submitted    driver runs and reports         shop-c7-1 Running        -, 5 s
    shop-c7-1 Running      spec.suspend is true            shop-c7-1 Stopping       StopRun, 5 s
    shop-c7-1 Stopping     driver ended                    -, it is in lastRun      -, never

Must not know Kubernetes, processes, a clock or a catalog.
"""
