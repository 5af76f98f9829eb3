"""Find out whether a table has a new snapshot, by its catalog's metadata alone.

The head of a table is the current snapshot of its branch. While a pipeline is idle, the operator
polls it, so that no Spark driver has to run for that.

    head_watch     when to poll, and what has changed since the last run
    table_heads    one poll: Secrets, catalogs and connections put together
    lanes          which catalog may be asked now, and for how long
    connections    the way to the process `reader`, which speaks to catalogs (see there)

`reader` is a process of its own: an answer that is hostile, or never comes, ends one child of it.
"""
