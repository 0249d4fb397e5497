"""What changes a program, a file a pass."""
