"""What strategies look for in loops."""
