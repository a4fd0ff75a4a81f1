"""Turn memory: the fingerprint of each turn, its log and feedback, and the views that agents read."""
