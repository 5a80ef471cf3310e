"""The daemon on each node: it moves workers, and owns their transports and source ports."""
