"""The intermediate representations, a file each: nodes, printer and rules; and what is asked of them."""
