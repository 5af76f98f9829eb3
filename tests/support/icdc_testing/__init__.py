"""What the tests of all levels share: real servers, players of what is foreign, and scenarios."""

from pathlib import Path

SOURCES = str(Path(__file__).parents[1])
"""What PYTHONPATH has to hold for a program that imports this package."""
