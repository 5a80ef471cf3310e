"""The command line: entry points, and the one place that may start any app."""
