"""The routes that need a chat model, on a server without one."""

import httpx
import pytest

from tests.api.calls import refused
from tests.api.turn_memory.talking import MAYA, TALK, artifacts, put_fingerprint, put_turn


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ["reconcile", "summarize"])
async def test_without_a_model_there_is_nothing_to_read_with(http: httpx.AsyncClient, route: str, stream: bool) -> None:
    await put_turn(http, "t1")
    await put_fingerprint(http, "t1", objective="draw it")
    before = await artifacts(http)
    for turn_id in ("t1", "unknown"):
        answer = await http.post(f"{TALK}/{route}", json=MAYA | {"turn_id": turn_id, "stream": stream})
        assert "MNEMA_LLM" in refused(answer, 409, "no_chat_model")["detail"]
    assert await artifacts(http) == before
