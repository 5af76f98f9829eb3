"""How properties are tested: however slow the machine is, an example may take its time."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")
