"""DLC to the integer code of both units: opcodes, instructions, what each costs, and what the arrays are bound to."""
