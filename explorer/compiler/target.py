"""What GPUs have, as far as a schedule depends on it."""

STATIC_SHARED_BYTES = 48 * 1024
"""What a block may declare on every GPU; more is given at the launch."""
MOST_SHARED_BYTES = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "sm_90a": 227 * 1024}
"""The shared memory that a block may be given, by architecture."""
FLOAT_BYTES = 4
WARP = 32
"""Threads of a warp."""
EXTENT_LIMIT = 2**31 - 2**20
"""Above every extent and count of a launch, for kernels count in 32 bits, and a block's share beyond the end."""
