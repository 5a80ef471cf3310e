"""Ways to write a worker's state into the memory of another node, one file each."""
