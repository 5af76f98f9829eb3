"""Requests of people: questions that a run answers, comparisons, repairs and re-exports. Pure."""
