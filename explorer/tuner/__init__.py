"""Which schedule is fastest: what there is to choose from, what that costs, and how it is searched."""
