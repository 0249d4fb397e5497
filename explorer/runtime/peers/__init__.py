"""What a run on a GPU is timed beside."""
