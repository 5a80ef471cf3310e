"""Celery tasks: load by id, call one library function, store."""
