"""`--wait` of `icdc resync`, `rollback` and `restart`: read the status until the request has ended.

Scripts want the result and not only that something was requested. It is read from the status alone,
as a person would, so that it needs no right but to read pipelines, and waiting holds nothing up:
whoever stops it (Ctrl-C, --timeout) leaves the request as it is.

    requested   from the patched pipeline to a request
    requests    from one status to the end of a request     loop    reading it again until then
"""
