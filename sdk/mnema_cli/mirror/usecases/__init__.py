"""The Markdown mirror: a run that compares files with the store and brings both into step."""
