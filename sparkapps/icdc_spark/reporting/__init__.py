"""Reports the progress of a run: in the annotation of a pod, its termination message, a file."""
