"""Headers lead every reader from what it knew to what it may see (docs/contract.md, Delta header)."""

import contextlib
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from app.bootstrap import Application
from app.domain.errors import MnemaError
from app.domain.memory.memory import MemoryType
from app.ports import Embedder
from tests.effort import DEEP, tries
from tests.factories import Clock, KeepOpen, make_caller
from tests.storage.building import HashedEmbedder
from tests.usecases.header_readers import CATEGORIES, THREADS, USERS, Changes, Readings, make_readers

Step = tuple[str, int, dict[str, Any]]
NUMBERS = st.integers(0, 40)


def step(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Return the strategy of one change: its name, a number that picks its memory, and its arguments."""
    return st.tuples(st.just(name), NUMBERS, st.fixed_dictionaries(fields))


KINDS = st.sampled_from([*[MemoryType.semantic] * 5, MemoryType.episodic, MemoryType.turn, MemoryType.summary])
CREATE = step(
    "create",
    user=st.sampled_from(USERS),
    category=st.sampled_from(CATEGORIES),
    thread=st.sampled_from(THREADS),
    kind=KINDS,
)
READ = step("read", budget=st.sampled_from([8192, 8192, 60, 5]))
STEPS = st.one_of(
    *[CREATE] * 2,
    *[READ] * 6,
    step("rewrite", thread=st.sampled_from(THREADS), same=st.booleans()),
    step("patch", text=st.sampled_from(["Tea", "Rain"])),
    step("patch", category=st.sampled_from(CATEGORIES)),
    step("patch", category=st.sampled_from(CATEGORIES), text=st.just("Both")),
    step("patch", importance=st.integers(1, 5)),
    step("patch", pinned=st.booleans()),
    *[step("soft_delete")] * 3,
    *[step("restore")] * 3,
    step("purge"),
    step("purge_all"),
    step("merge", count=st.integers(1, 3)),
    step("recreate", thread=st.sampled_from(THREADS)),
)
SEQUENCES = st.lists(CREATE, min_size=3, max_size=5).flatmap(
    lambda first: st.lists(STEPS, min_size=15, max_size=50).map(lambda rest: [*first, *rest])
)


@pytest.fixture
def embedder() -> Embedder:
    """Return an embedder without a model: equal texts are alike, no others."""
    return KeepOpen(HashedEmbedder())


@pytest.mark.long
@settings(max_examples=tries(100), derandomize=not DEEP, suppress_health_check=list(HealthCheck))
@given(SEQUENCES)
async def test_headers_lead_from_what_a_reader_knew_to_what_it_may_see(
    app: Application, sql: asyncpg.Connection, clock: Clock, steps: list[Step]
) -> None:
    caller = await make_caller(app)
    changes = Changes(app, sql, clock, caller)
    changes.readers = await make_readers(app, caller)
    readings = Readings(app, changes)
    note("\n".join(map(repr, steps)))
    for name, number, arguments in steps:
        if name == "read":
            await readings.read_header(changes.readers[number % len(changes.readers)], **arguments)
        elif name == "purge_all":
            await changes.purge_all()
        else:
            with contextlib.suppress(MnemaError):  # such as a restored text that exists again: nothing changes
                await getattr(changes, name)(number, **arguments)
    for reader in changes.readers:
        await readings.read_header(reader, 8192)
        await readings.read_header(reader, 8192)
