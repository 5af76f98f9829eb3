"""Takes a guard out of a copy of the product and runs the tests that must notice it."""
