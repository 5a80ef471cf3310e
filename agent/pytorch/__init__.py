"""The training side for PyTorch: checkpoint storage over a transport, and groups that re-form."""
