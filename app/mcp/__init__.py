"""The MCP face: memory as tools, by streamable HTTP in the server and by stdio as its client."""

NAME = "mnema"
INSTRUCTIONS = """Long-term memory shared by agents. Query it before you rely on what you know of a user, a task or an
earlier conversation; pass thread_id to be told first what changed there since you last asked. Remember what will matter
later: one self-contained sentence in the third person. Every answer holds only what the named agent may see."""
