"""The Markdown mirror: files of entries, the snapshot of what was in step, and the plan that compares both sides."""
