"""What the tests of all levels share: real servers, players of what is foreign, and scenarios."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The checkout."""
SOURCES = str(ROOT / "tests" / "support")
"""What PYTHONPATH has to hold for a program that imports this package."""
