"""One suite for every adapter of a port, then tests of what each adapter can meet."""
