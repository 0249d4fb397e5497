"""The story of one operation, as the page shows it."""
