"""The programs of a compilation, ready to be called: on this processor, on the simulated machine, on a GPU."""
