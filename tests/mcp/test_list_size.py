"""The size of the list of tools, and the output schemas, which clients compile for each call."""

import json

from mnema_wire.facts import FactPage, FactReply
from mnema_wire.memory import Corrected, Forgotten, HistoryPage, Written
from mnema_wire.recall import Answer
from pydantic import BaseModel

from app.config.settings import ToolKind
from app.mcp.tools import TOOLS
from tests.factories import Caller
from tests.mcp.connections import by_http

ANSWERS: dict[ToolKind, tuple[type[BaseModel], ...]] = {
    "query": (Answer,),
    "remember": (Written,),
    "history": (HistoryPage,),
    "facts": (FactPage, FactReply),
    "forget": (Forgotten,),
    "correct": (Corrected,),
}


async def test_the_list_leaves_room_in_a_line_of_64_kib(server: str, caller: Caller) -> None:
    """Readers of lines often take at most 64 KiB."""
    async with by_http(server, caller.key) as client:
        listed = (await client.list_tools()).model_dump_json(by_alias=True, exclude_none=True)
    assert len(listed.encode()) < 16 * 1024
    assert '"title":"' not in json.dumps([tool["inputSchema"] for tool in json.loads(listed)["tools"]])


def test_an_output_schema_is_short_and_names_fields_that_exist() -> None:
    for tool in TOOLS:
        assert len(json.dumps(tool.output_schema)) < 1024
        fields = {name for model in ANSWERS[tool.kind] for name in model.model_fields}
        assert set(tool.output_schema["properties"]) <= fields
        assert "required" not in tool.output_schema, "the structured part of an error is a problem document"
