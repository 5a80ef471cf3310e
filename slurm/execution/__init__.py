"""Moves carried out through Slurm."""
