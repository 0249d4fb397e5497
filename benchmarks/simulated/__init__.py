"""Ember's simulated machine beside what is published: its core alone, and programs that a person wrote."""
