"""How each operator of ATen is said in the language."""
