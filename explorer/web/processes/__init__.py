"""Several processes that answer on one port, and the one that starts them and takes care that they are there."""
