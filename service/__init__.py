"""The HTTP service: a handler parses, calls one function, formats."""
