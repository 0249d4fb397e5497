"""Data as the arrays that programs read, and the memory that these take."""
