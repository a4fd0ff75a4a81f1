"""The Celery workers: tasks, the sweep for due jobs, and the application of each process."""
