"""`torch.compile(model, backend="explorer")`: Dynamo's graphs by the tracer's table, and the rest as it was."""
