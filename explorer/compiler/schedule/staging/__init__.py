"""What a warp's elements need, fetched into shared memory before it is used."""
