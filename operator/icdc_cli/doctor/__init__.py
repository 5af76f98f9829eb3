"""The facts of a host or cluster for `icdc doctor` and `icdc report`, and the verdicts on them."""
