"""How a run lives: the program, its tables side by side, threads, limits of time, and its end."""
