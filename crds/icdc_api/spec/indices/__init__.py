"""Says what the documents of an index have, and which settings it may be given."""
