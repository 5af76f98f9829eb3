"""Specs, statuses and worlds for tests of what the operator decides."""
