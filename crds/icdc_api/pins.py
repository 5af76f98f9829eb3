"""Lifetime of the tag that keeps the applied snapshot of a table, and when it is renewed.

A tag that nobody renews expires, so that a deleted pipeline does not keep files for ever. Runs
renew tags, and an idle pipeline gets a run only for that from time to time.

    day 0   the tag is set                      valid until day 30
    day 10  a third has passed: it is renewed   valid until day 40
    day 40  nobody renewed it                   expire_snapshots removes tag and snapshot
"""

from datetime import timedelta

PIN_AGE = timedelta(days=30)
"""Lifetime of a tag after it was set or renewed. A pipeline that was suspended for 20 days still
finds its snapshot; a deleted one keeps files for 30 days at most."""

RENEW_AFTER = PIN_AGE / 3
"""Age at which a tag is renewed. A third: two runs may fail before the tag expires."""
