"""The templates' one environment: an answer a file, and the pieces of the page."""
