"""Commands about a pipeline in a cluster: what `kubectl icdc …` adds to `kubectl`.

They read and patch the pipeline and nothing else; the operator does the work.
"""
