"""Products of rows and matrices cut out of the nests that they stand in, for the tiles."""
