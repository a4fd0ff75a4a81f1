"""A person before a console in a process of its own, by HTTP and by the websockets of pages, without a browser."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

CLIENT = re.compile(r"'client_id': '([0-9a-f-]+)'")
TOKEN = re.compile(r'name="token" value="([^"]+)"')
ANSWER_BYTES = 16 << 20


class WirePerson:
    """A person who is signed in. `client`: sends the session's cookie."""

    def __init__(self, console: str, client: httpx.AsyncClient) -> None:
        self.client = client
        self._socket = console.replace("http://", "ws://") + "/_nicegui_ws/socket.io/"
        self._origin = console.removesuffix("/console")

    async def open_page(self, path: str = "/") -> str:
        """Load a page; return its id."""
        answer = await self.client.get(f"/console{path}")
        found = CLIENT.search(answer.text)
        assert found, answer.text[:2000]
        return found[1]

    async def open_socket(self, page_id: str) -> tuple[ClientConnection, dict[str, Any]]:
        """Open the websocket of a page; return it with the server's greeting, after the page is connected."""
        query = f"EIO=4&transport=websocket&client_id={page_id}&implicit_handshake=true&tab_id=t&document_id=d"
        cookie = "; ".join(f"{name}={value}" for name, value in self.client.cookies.items())
        socket = await connect(
            f"{self._socket}?{query}&next_message_id=0",
            origin=self._origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": cookie},
            max_size=ANSWER_BYTES,
            proxy=None,
        )
        greeting = await socket.recv(decode=True)
        assert greeting.startswith("0"), greeting
        await socket.send("40")
        answer = await socket.recv(decode=True)
        assert answer.startswith("40"), answer
        return socket, json.loads(greeting[1:])


@asynccontextmanager
async def wire_person(console: str, key: str) -> AsyncIterator[WirePerson]:
    """Sign in with this key."""
    origin = console.removesuffix("/console")
    async with httpx.AsyncClient(base_url=origin, headers={"Origin": origin}, trust_env=False, timeout=60) as client:
        token = TOKEN.search((await client.get("/console/sign-in")).text)
        assert token
        answer = await client.post("/console/sign-in", data={"token": token[1], "key": key})
        assert answer.status_code == 303, answer.text
        yield WirePerson(console, client)
