"""The memory hierarchy: caches by lines, and what a request takes at each level."""
