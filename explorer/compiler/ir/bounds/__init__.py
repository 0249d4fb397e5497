"""Whether accesses are inside their arrays: what is known of indices, and what follows from it."""
