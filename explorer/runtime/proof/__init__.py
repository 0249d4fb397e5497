"""Whether a stage that somebody has edited computes what its model says: run by the stage's interpreter on small inputs
and held against the float64 reference. That is a test on those inputs, and no proof of others."""
