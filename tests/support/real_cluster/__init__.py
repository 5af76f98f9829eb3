"""TODO: say what this room holds."""
