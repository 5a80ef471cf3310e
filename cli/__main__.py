"""``python -m monkeytree.cli`` is ``monkeytree``."""

from .main import main

main()
