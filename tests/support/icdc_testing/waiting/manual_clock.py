"""A clock that a test sets, for what is decided by seconds that have passed."""


class ManualClock:
    """Called, it gives `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds
