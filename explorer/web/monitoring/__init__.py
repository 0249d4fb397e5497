"""What whoever runs the server may know of it while it serves, and of no student: numbers for Prometheus."""
