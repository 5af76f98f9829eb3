"""The state document and what may follow what: pure rules of what a crash may leave behind."""
