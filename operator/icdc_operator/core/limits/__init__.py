"""The limits of what is stored for a pipeline. Pure.

status_size    shorten a status that does not fit
usage          measure how much of each limit is used
"""
