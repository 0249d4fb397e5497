"""Who runs next, by one policy for runs in this process tree and over Redis or Valkey Streams; and the latter."""
