"""Which values of a graph are stored in memory, and which get a row of a nest: what fusion goes by."""
