"""What the test cluster takes of its host: packages, processes, cgroups, a network namespace."""
