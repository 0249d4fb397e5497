"""The story of one operation: its lines at every stage, and what each pass made of them."""
