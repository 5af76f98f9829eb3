"""What befalls a world."""
