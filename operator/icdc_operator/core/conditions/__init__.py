"""Conditions of a pipeline: what each one says, and the phase and totals derived from them.

    status + Observed -> view.PipelineView -> kstatus | details | deleting -> summary -> status

`view` answers questions that several conditions ask. `kstatus` has Ready, Reconciling and Stalled,
`details` the other types, and `deleting` those that replace them during a deletion. `summary` adds
transition times and derives the phase. Nothing here decides what to do next.
"""
