"""What a name may stand for: built-in functions, the prelude's helpers, structures, and values with their shapes."""
