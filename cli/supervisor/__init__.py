"""The process tree of ``monkeytree serve``."""
