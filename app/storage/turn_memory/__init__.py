"""Artifacts of turn memory, and the blobs that PostgreSQL keeps."""
