"""Tables of statuses and answers as text."""
