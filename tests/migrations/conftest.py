"""Databases before any migration."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import asyncpg
import pytest
from filelock import FileLock

from app.storage.operations.bootstrap import bootstrap_cluster
from tests.conftest import PASSWORDS, Database, database_url

Bootstrap: TypeAlias = Callable[[str], Awaitable[None]]


@pytest.fixture
def bootstrap(superuser_url: str) -> Bootstrap:
    """Return the operator's first step. It runs one at a time, because it alters roles that all workers share."""

    async def run(name: str) -> None:
        with FileLock(Path(os.environ["MNEMA_TEST_HOME"]) / "setup.lock"):
            await bootstrap_cluster(superuser_url, name, PASSWORDS)

    return run


@pytest.fixture
async def empty(superuser_url: str, bootstrap: Bootstrap) -> AsyncIterator[Database]:
    """Return a database as the bootstrap leaves it."""
    name = f"t_{uuid4().hex}"
    await bootstrap(name)
    logins = {role: database_url(superuser_url, name, role, password) for role, password in PASSWORDS.items()}
    try:
        app = logins["mnema_app"]
        yield Database(name, database_url(superuser_url, name), logins["mnema_admin"], app, app)
    finally:
        connection = await asyncpg.connect(superuser_url)
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()
