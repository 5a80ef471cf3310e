"""Systems under comparison, each a small file behind one protocol."""
