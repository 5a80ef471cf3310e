"""Hashes of switches, the source ports that steer by them, and learning an unknown one."""
