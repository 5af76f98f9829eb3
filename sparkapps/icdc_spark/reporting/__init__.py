"""Tells how far a run is: in the annotation of its pod, its termination message, or a file."""
