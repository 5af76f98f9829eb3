"""How a run lives: the program, its tables side by side, threads, time limits, and its end."""
