"""How properties are tested: however slow the machine is, an example may take its time.

With a seed given the examples are the same each time, as are the choices of all other random tests.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="ICDC_TEST_SEED" in os.environ,
)
settings.load_profile("untimed")
