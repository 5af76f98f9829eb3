"""The kill harness of the operator: kill it at every call, and compare how the story ends.

The operator may die at any moment, and what it asked the API server for may or may not have been
done. The harness shows that the next operator always finishes the job. The API server is real; who
writes to it is played:

              user (turns of the story)
                  |  edits, deletes, asks
                  v
    +----------------------------+    cut: one call is killed, lost, refused, slow or stale
    |      real API server       |<--------X-------- operator (killed, then built anew)
    +----------------------------+                      ^
        ^            |  each write                      |  events of the watch, some swallowed
        |            v                                  |
     player       witness                             trial
     plays spark-operator,     complains as soon as a rule breaks:
     kubelet and driver        two writers, an epoch that falls, a wrong verdict

story      `stories`: the acts of a user and what must come of them: runs, verdicts, the end.
           (`icdc_testing.tables.scenarios` are something else: acts on tables and an index.)
cut        `cuts`: one disturbance at the n-th call of the operator: a `Fault` and its position.
player     `player`: writes what spark-operator, the kubelet and the driver would write.
witness    `witness`: sees every write; `verdicts` judges what kstatus makes of each status.
trial      `trial`: one story with one cut, on a clock that leaps over waits (`operator` is the one
           that dies, `stale_views` what a lagging server answers, `seeds` a story from its middle).
ending     `endings`: the objects at the end without times, epochs and ids, so that two compare.

`playing` runs a story undisturbed first, then once for each cut, many at a time:

    undisturbed   GET pipeline, list runs, PATCH status, POST ConfigMap, POST SparkApplication …
    cut at 4      GET pipeline, list runs, PATCH status, POST ConfigMap X   killed after the call
                  a new operator: GET pipeline, … finds the ConfigMap, creates the SparkApplication
    both endings  equal, or the test fails with the story, the cut and the difference

Beside the tests in `tests/api/stories`, `proxy` does the same to a real process by SIGKILL, and
`mutations` to changes of the spec.
A normal run tries a share of the cuts, chosen by the seed; ICDC_SOAK=1 tries all.
"""
