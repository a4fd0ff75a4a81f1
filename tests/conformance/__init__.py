"""One suite for every adapter of a port, then what each can meet."""
