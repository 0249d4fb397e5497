"""Times and memory: what suites measure contenders with, by turns, on the host and on a GPU."""
