"""The same program on the core alone, without an access unit: its instructions, its clock and its path to memory."""
