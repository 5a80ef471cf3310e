"""The figures of the paper, regenerated beside the published numbers."""
