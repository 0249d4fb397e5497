"""How scheduled kernels are written as text, which takes more than a line a node; `parse` reads it back."""
