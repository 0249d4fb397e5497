"""What passes changed of a program, in figures."""
