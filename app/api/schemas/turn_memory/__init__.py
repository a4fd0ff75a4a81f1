"""Bodies of turn memory."""
