"""Commands that need no cluster: run, plan, verify, dead-letters, crd."""
