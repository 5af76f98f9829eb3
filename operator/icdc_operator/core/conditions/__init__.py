"""Conditions of a pipeline: what each one says, and the phase and totals derived from them.

    status + Observed --> view.PipelineView --> kstatus, progress, deleting --> summary --> status

`view` answers questions that several conditions ask. `kstatus` and `progress` have one function
for each condition type, `deleting` those that replace them while a pipeline is being deleted.
`summary` adds transition times and derives the phase. Nothing here decides what to do next.
"""
