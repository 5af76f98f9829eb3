"""Programs of users that tests drive: a browser and shells. Installed where that is possible."""
