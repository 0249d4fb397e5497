"""Products on tensor cores: the instructions, and which thread holds which elements of their operands."""
