"""What is read and compared before a step of one table: table, state document, index and alias."""
