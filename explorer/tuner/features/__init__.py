"""What a schedule's time is told by, before it has run: found without a GPU."""
