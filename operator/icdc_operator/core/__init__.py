"""The reconcile core: what is to be done, and what the status says. Pure; local runs share it."""
