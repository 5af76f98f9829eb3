"""What `icdc doctor` and `icdc report` read of a host or a cluster, and what they make of it."""
