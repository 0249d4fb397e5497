"""cuKE's strategy: a score by chunks of edges that share what they gather (cuKE §V and §VI)."""
