"""The bridge to Slurm: collector, adviser, mover."""
