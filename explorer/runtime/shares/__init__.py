"""What a run's time or cycles went to: by kernel, and by operation of the model."""
