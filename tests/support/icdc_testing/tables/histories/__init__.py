"""Random histories of tables, ten to forty commits each, and the check of every batch."""
