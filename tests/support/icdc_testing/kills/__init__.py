"""The kill harness of the operator: stories, cuts, trials and what must hold of each."""
