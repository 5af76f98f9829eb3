"""Programs of users that tests drive, such as shells. Installed where that is possible."""
