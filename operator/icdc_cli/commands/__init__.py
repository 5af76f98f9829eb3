"""Commands that need no cluster: run, plan, verify, dead-letters, crd.

Each module holds options and the order of steps; what a step does is in `local` and `embedded`,
imported by the function that carries the command out. An import above would be paid by every call
of `icdc`, as `main` reads all of these modules to build its parser.
"""
