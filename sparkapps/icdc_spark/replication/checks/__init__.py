"""Read and compare table, state document, index and alias before a step of one table."""
