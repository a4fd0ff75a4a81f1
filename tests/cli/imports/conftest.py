"""The environment of an import into the shared server, and what is stored afterwards."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.factories import Caller

Stored = Callable[[], Awaitable[list[dict[str, Any]]]]


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment with the server's address, the key of a new tenant and a home of its own."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}


@pytest.fixture
def stored(server: str, caller: Caller) -> Stored:
    """Return a function that lists every active memory and turn of the tenant, oldest first."""

    async def list_all() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {"limit": 200, "sort": "created_at", "order": "asc"}
        async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {caller.key}"}) as client:
            while True:
                page = (await client.get("/memory", params=params)).raise_for_status().json()
                found += page["items"]
                if not page.get("next_cursor"):
                    return found
                params["cursor"] = page["next_cursor"]

    return list_all
