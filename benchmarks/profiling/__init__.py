"""Nsight Compute: its command line, the counters that it reads, and what a kernel's counters say of it."""
