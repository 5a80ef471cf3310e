"""Example snapshots, installed as ``monkeytree.examples`` so that ``monkeytree demo`` finds them."""
