"""What the page says of itself: a tour, the language on one screen, and what its words mean."""
