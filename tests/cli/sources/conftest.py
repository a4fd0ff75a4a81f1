"""A shell with the server's address, and a worker that runs index jobs at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application
from tests.factories import Caller
from tests.index_worker import index_worker


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment of a shell with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}


@pytest.fixture
async def worker(app: Application, caller: Caller) -> AsyncIterator[None]:
    """Run the tenant's index jobs as soon as they are queued."""
    async with index_worker(app, caller):
        yield
