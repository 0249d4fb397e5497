"""What the templates show of a compilation: panes, the rail, differences, graphs and decisions."""
