"""What definitions are over, by their headers."""
