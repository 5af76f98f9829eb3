"""The process of a run: its start, its tables side by side, threads, time limits, and its end."""
