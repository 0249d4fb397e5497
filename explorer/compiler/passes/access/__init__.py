"""From loops to decoupled access and execute programs, and passes over those (Ember)."""
