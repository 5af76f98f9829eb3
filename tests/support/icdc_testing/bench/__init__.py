"""What benchmarks share: the machine, sessions, data and measures."""
