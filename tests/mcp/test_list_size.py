"""The size of the list of tools."""

import json

from app.mcp.tools import TOOLS


def test_the_tools_leave_room_in_a_line_of_64_kib() -> None:
    """Each tool is listed under two names, and readers of lines often take at most 64 KiB."""
    schemas = [(tool.description, tool.input_schema(), tool.output_schema()) for tool in TOOLS for _name in range(2)]
    assert len(json.dumps(schemas, ensure_ascii=False, separators=(",", ":")).encode()) < 60 * 1024
    assert '"title"' not in json.dumps([schema["properties"] for _description, schema, _output in schemas])
