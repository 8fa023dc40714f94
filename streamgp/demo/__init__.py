"""The main job in one command: a whole network, some of it lying, and one table in the end."""
