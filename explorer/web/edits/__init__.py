"""What the page sends of a text and of how its reader looks at it."""
