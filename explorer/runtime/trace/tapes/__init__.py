"""A module run on examples, and what is on the tapes of it."""
