"""A stage's text as a person has changed it: read back, held against what the compiler made, and what was found of it.
Whether it computes what the model says is for `explorer.runtime.proof`, which has the reference."""
