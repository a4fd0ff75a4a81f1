"""What must be there before requests can be served."""

import asyncio
from collections.abc import Awaitable, Callable

from app.domain.errors import BrokerUnavailable, ConfigError, EmbedderUnavailable, MnemaError
from app.ports import Embedder
from app.storage.admin import head_revision
from app.storage.spaces import require_space
from app.storage.uow import UnitOfWork

BEHIND_S = 120
"""Jobs that wait longer are worth a look: a worker that hangs says nothing by itself."""


class Readiness:
    """Each check answers `ok` or says what is wrong and how to mend it."""

    OPTIONAL = frozenset({"broker", "workers"})
    """Without these, reading and writing go on."""

    def __init__(self, uow: UnitOfWork, embedder: Embedder, broker: Callable[[], None]) -> None:
        """`broker` raises BrokerUnavailable, and may block for a moment."""
        self._uow = uow
        self._embedder = embedder
        self._ask_broker = broker
        self._head: str | None = None

    async def checks(self) -> dict[str, str]:
        """All checks by name."""
        checks: dict[str, Callable[[], Awaitable[None]]] = {
            "database": self._database,
            "migrations": self._migrations,
            "embedding_space": self._space,
            "embedder": self._model,
            "broker": self._broker,
            "workers": self._workers,
        }
        return {name: await _verdict(check) for name, check in checks.items()}

    async def _broker(self) -> None:
        await asyncio.to_thread(self._ask_broker)

    async def _workers(self) -> None:
        behind = (await self._uow.definer("SELECT jobs_behind() AS seconds"))[0]["seconds"]
        if behind is not None and behind > BEHIND_S:
            raise BrokerUnavailable(f"the oldest due job has waited {behind:.0f} s: does a worker run, and beat?")

    async def _database(self) -> None:
        await self._uow.definer("SELECT 1")

    async def _migrations(self) -> None:
        self._head = self._head or head_revision()
        rows = await self._uow.definer("SELECT version_num FROM alembic_version")
        current = rows[0]["version_num"] if rows else "none"
        if current != self._head:
            raise ConfigError(f"schema is at {current}, this server needs {self._head}: run `mnema migrate`")

    async def _space(self) -> None:
        await require_space(self._uow, self._embedder.model, self._embedder.dimension)

    async def _model(self) -> None:
        vector = await self._embedder.embed_query("ready")
        if len(vector) != self._embedder.dimension:
            raise EmbedderUnavailable("the model answers with another dimension")


async def _verdict(check: Callable[[], Awaitable[None]]) -> str:
    try:
        await check()
    except MnemaError as error:
        return error.detail
    return "ok"
