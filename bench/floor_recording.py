"""A recorder of the statements that one real request sends, so that no benchmark repeats them by hand."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from app.api.schemas.memory.memories import MemoryIn
from app.api.schemas.recall.query import QueryIn
from app.bootstrap import Application
from app.domain.principal import Principal
from bench import workload
from bench.throwaway import Site


@dataclass(frozen=True, slots=True)
class Call:
    """One statement in its own transaction."""

    sql: str
    args: tuple[Any, ...]


@dataclass(slots=True)
class Recording:
    """The statements of one request. `database_ids` are ids that came out of the database; all other ids are new."""

    calls: list[Call] = field(default_factory=list)
    database_ids: set[str] = field(default_factory=set)

    @property
    def sql_shape(self) -> tuple[str, ...]:
        """The texts of the statements, which two requests of one kind share."""
        return tuple(call.sql for call in self.calls)


class _RecordingTx:
    """A transaction that records its statements."""

    def __init__(self, tx: Any, recording: Recording) -> None:
        self._tx = tx
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        async def record_call(statement: str, *args: Any) -> Any:
            self._recording.calls.append(Call(statement, args))
            return await getattr(self._tx, name)(statement, *args)

        return record_call


@contextlib.contextmanager
def _record_calls(app: Application, recordings: list[Recording]) -> Iterator[None]:
    """Append the statements of the application's unit of work to the last recording until the block ends."""
    uow: Any = app.uow
    call, calls = uow.call, uow.calls

    async def recorded_call(principal: Principal, statement: str, *args: Any) -> Any:
        rows = await call(principal, statement, *args)
        recordings[-1].calls.append(Call(statement, (principal.tenant_id, *args)))
        recordings[-1].database_ids.update(str(row["id"]) for row in map(dict, rows) if "id" in row)
        return rows

    @contextlib.asynccontextmanager
    async def recorded_calls(principal: Principal) -> AsyncIterator[Any]:
        async with calls(principal) as tx:
            yield _RecordingTx(tx, recordings[-1])

    uow.call, uow.calls = recorded_call, recorded_calls
    try:
        yield
    finally:
        del uow.call, uow.calls


async def record_requests(site: Site, kind: str, count: int, first: int, ranking: str) -> list[Recording]:
    """Make `count` real requests and return those of the commonest shape. Writes start at note `first`."""
    recordings: list[Recording] = []
    async with site.open_application() as (app, scope):
        with _record_calls(app, recordings):
            for number in range(count):
                recordings.append(Recording())
                if kind == "query":
                    await app.query.answer_query(
                        scope, QueryIn.model_validate(workload.query_body(number, ranking)).to_domain()
                    )
                else:
                    body = MemoryIn.model_validate(workload.write_body(first + number))
                    await app.write.write_memory(scope, body.to_domain(app.policies.write.default_importance))
    shapes = [recording.sql_shape for recording in recordings]
    common = max(set(shapes), key=shapes.count)
    if shapes.count(common) < 0.9 * count:
        raise RuntimeError(f"requests of kind {kind!r} differ too much to be replayed")
    return [recording for recording in recordings if recording.sql_shape == common]
