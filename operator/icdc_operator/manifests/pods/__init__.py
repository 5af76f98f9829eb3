"""The pods of a run: our template for each role, a user's template merged in, and its checks."""
