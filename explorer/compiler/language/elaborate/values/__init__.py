"""Operations on values: shapes are checked and values of the graph made, elements arranged, mistakes explained."""
