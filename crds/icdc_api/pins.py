"""How long a tag keeps the applied snapshot of a table, and when it is renewed.

A tag that nobody renews expires, so that a pipeline that is gone keeps no files for ever. Runs
renew tags, and an idle pipeline gets a run of its own for that from time to time.

    day 0   the tag is set                     kept until day 30
    day 10  a third is used up: it is renewed  kept until day 40
    day 40  nobody was there to renew it       an expiration takes tag and snapshot away
"""

from datetime import timedelta

PIN_AGE = timedelta(days=30)
"""How long a tag keeps its snapshot after it was set or renewed."""

RENEW_AFTER = PIN_AGE / 3
"""How long after that it is renewed."""
