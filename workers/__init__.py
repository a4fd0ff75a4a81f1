"""The Celery face: what the workers run, when, and with which application."""
