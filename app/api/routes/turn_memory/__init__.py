"""Routes of turn memory."""
