"""What programs that explain code ask the explorer, by the Model Context Protocol."""
