"""The MCP interface: memory as tools, over streamable HTTP in the server and over stdio as its client."""

NAME = "mnema"
INSTRUCTIONS = """Long-term memory shared by agents. Query it before you rely on knowledge about a user, a task or an
earlier conversation. Pass thread_id to see first what changed in that thread since your last query. Remember facts that
will matter later, each as one self-contained sentence in the third person. Every answer contains only memories that the
named agent may see."""
