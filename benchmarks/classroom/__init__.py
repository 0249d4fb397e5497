"""A class of simulated students in front of a real server: `explorer bench class`."""
