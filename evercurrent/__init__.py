"""THE FRONT DOOR: the command, the one-machine supervisor, the console."""
