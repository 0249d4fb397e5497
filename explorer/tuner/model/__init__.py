"""What schedules are expected to take: a small network over features that need no GPU."""
