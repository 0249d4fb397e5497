"""What a model means, in float64, apart from the compiler; and how results are held against it."""
