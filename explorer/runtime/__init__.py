"""Running a compiled model: inputs, targets, reference results, and the processes that runs happen in."""
