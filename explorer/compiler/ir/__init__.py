"""The intermediate representations: nodes, printers and rules; and what is asked of them."""
