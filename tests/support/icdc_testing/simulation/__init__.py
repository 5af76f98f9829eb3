"""The operator, its runs and what they meet, in one process, in virtual time, from one seed."""
