"""From the graph to fused loops, and passes over those."""
