"""A recorder of the statements that one real request sends, so that no benchmark repeats them by hand."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from mnema_wire.facts import FactQuestion, Statement
from mnema_wire.memory import NewMemory
from mnema_wire.recall import Question

from app.api.schemas.facts.facts import to_place
from app.api.schemas.memory.memories import to_new_memory
from app.api.schemas.recall.query import to_query
from app.bootstrap import Application
from app.domain.principal import Principal
from bench.http_load import Load
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
    uow: Any = app.parts.uow
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


async def record_requests(site: Site, load: Load) -> list[Recording]:
    """Make some real requests of the load and return those of the commonest shape."""
    recordings: list[Recording] = []
    async with site.open_application() as (app, scope):
        with _record_calls(app, recordings):
            for number in range(load.queries):
                recordings.append(Recording())
                await _answer_request(app, scope, load, number)
    shapes = [recording.sql_shape for recording in recordings]
    common = max(set(shapes), key=shapes.count)
    if shapes.count(common) < 0.9 * load.queries:
        raise RuntimeError(f"requests of kind {load.kind!r} differ too much to be replayed")
    return [recording for recording in recordings if recording.sql_shape == common]


async def _answer_request(app: Application, scope: Principal, load: Load, number: int) -> None:
    """Do what the route of the load's kind does."""
    body = load.body_of(number)
    if load.kind == "query":
        await app.recall.query.answer_query(scope, to_query(Question.model_validate(body)))
    elif load.kind == "write":
        new = to_new_memory(NewMemory.model_validate(body), app.parts.policies.defaults.write.default_importance)
        await app.memory.write.write_memory(scope, new)
    elif load.kind == "facts_answer":
        asked = FactQuestion.model_validate(body)
        await app.facts.answer.answer_question(scope, asked.user_id, asked.thread_id, asked.query)
    else:
        stated = Statement.model_validate(body)
        await app.facts.store.store_text(scope, to_place(stated), stated.text or "")
