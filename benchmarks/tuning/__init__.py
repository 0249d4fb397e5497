"""What the tuner is recorded and measured on: spaces of schedules, the shapes of `tuned`, and points on a device."""
