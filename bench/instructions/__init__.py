"""Standing instructions: a corpus of sentences that are some and of look-alikes, and what the rules find in it."""
