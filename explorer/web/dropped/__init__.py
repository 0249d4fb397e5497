"""Data files that students drop onto the page: read once, kept until its page is closed."""
