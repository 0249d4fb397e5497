"""Loop distribution: nests taken apart, and put together again, before a strategy is chosen."""
