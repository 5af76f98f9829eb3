"""The only part of the application that touches Iceberg's and Spark's JVM classes.

Some of them are an internal contract of one Iceberg release; whoever changes the release finds in
this package everything that has to be checked.
"""
