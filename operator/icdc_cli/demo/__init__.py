"""`icdc demo`: the main job on an embedded default, from empty tables to the proof of equality.

Whoever considers this project wants to see one thing first: that an index stays equal to a table
through everything that happens to tables, a crash included. `scenario` says what happens, `stage`
runs the pipeline and waits, `command` tells the story. As the first thing that anybody runs, it is
also a test (tests/spark/cli/test_demo.py).
"""
