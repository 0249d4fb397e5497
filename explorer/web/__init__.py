"""The page and the JSON API: a FastAPI application that never executes a kernel itself."""
