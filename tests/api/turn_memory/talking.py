"""Calls of the routes of turn memory, for its tests."""

from typing import Any

import httpx

TALK = "/conversations/talk"
MAYA = {"user_id": "maya"}


async def put_turn(http: httpx.AsyncClient, turn_id: str, text: str = "Draw a diagram.", **fields: Any) -> Any:
    """Store a turn of Maya's conversation; return the answer."""
    talk = fields.pop("talk", TALK)
    answer = await http.put(f"{talk}/turns/{turn_id}", json=MAYA | {"user_text": text} | fields)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def put_fingerprint(http: httpx.AsyncClient, turn_id: str, **fields: Any) -> Any:
    """Give a turn a fingerprint; return the answer."""
    talk = fields.pop("talk", TALK)
    answer = await http.put(f"{talk}/turns/{turn_id}/fingerprint", json=MAYA | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def get_turn(http: httpx.AsyncClient, turn_id: str, talk: str = TALK) -> Any:
    """Return the whole log of a turn."""
    answer = await http.get(f"{talk}/turns/{turn_id}", params=MAYA)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def artifacts(http: httpx.AsyncClient, talk: str = TALK, **params: Any) -> Any:
    """Return the artifacts of a conversation, with its title."""
    answer = await http.get(f"{talk}/artifacts", params=MAYA | params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def active_set(http: httpx.AsyncClient, talk: str = TALK) -> Any:
    """Return the active set of a conversation."""
    answer = await http.get(f"{talk}/active-set", params=MAYA)
    assert answer.status_code == 200, answer.text
    return answer.json()
