"""The command line `icdc`: local runs, the demo, and what a person asks of a cluster."""
