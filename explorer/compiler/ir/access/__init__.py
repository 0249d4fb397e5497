"""The IRs of the access-execute machine: SLC, DLC, and what both have of the execute unit."""
