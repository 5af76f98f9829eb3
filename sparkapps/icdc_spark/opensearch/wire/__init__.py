"""The lines of a bulk request and what each item of its response means."""
