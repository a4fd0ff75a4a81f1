"""Sources of documents, their files, the places of chunks, and index jobs."""
