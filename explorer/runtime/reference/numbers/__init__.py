"""What the reference computes with: numbers, gradients, and bounds of rounding errors."""
