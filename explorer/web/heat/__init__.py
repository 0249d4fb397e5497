"""Where the time of what the panes show goes, for the column beside their lines."""
