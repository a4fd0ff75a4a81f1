"""Subscribers share one read of new changes, and each hears what a read of its own would tell."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import Application
from app.domain.epochs import ChangePosition
from app.domain.errors import Unauthenticated
from app.domain.memory.change_feed import ChangeFilter, ChangePage
from app.domain.outages import DatabaseUnavailable
from app.domain.paging import encode_change_cursor
from app.domain.principal import Principal
from app.domain.where.parsing import parse_where
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.uow import ReadTx
from app.usecases.memory import change_feed
from app.usecases.memory.change_feed import ChangeFeed
from tests.factories import Caller, draft, make_caller
from tests.hearing import HEARD_S

ALL = ChangeFilter()


@dataclass
class Counted(ChangeFeedStorage):
    """The storage, which counts the pages it reads. `failing` makes it fail, `gate` makes it wait."""

    pages: int = 0
    failing: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def read_page(
        self, tx: ReadTx, principal: Principal, wanted: ChangeFilter, after: ChangePosition, limit: int
    ) -> ChangePage:
        self.pages += 1
        await self.gate.wait()
        if self.failing:
            raise DatabaseUnavailable()
        return await super().read_page(tx, principal, wanted, after, limit)


@dataclass
class EndingLease:
    """A lease on a key that ends."""

    has_ended: bool = False

    def require_live(self) -> None:
        if self.has_ended:
            raise Unauthenticated()


@dataclass
class Stream:
    """A subscribed feed: `begun` is the place where its subscribers wait."""

    feed: ChangeFeed
    storage: Counted
    begun: ChangePosition

    async def hear(self, principal: Principal, wanted: ChangeFilter = ALL, **changed: Any) -> ChangePage:
        """Return the page of a subscriber that waited since the beginning."""
        page = {"after": self.begun, "limit": 100, "with_memories": False} | changed
        return await self.feed.read_news(principal, wanted, **page)


@pytest.fixture
async def stream(app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stream]:
    """A stream whose watch has looked once, and looks no more unless a test sets POLL_S before."""
    monkeypatch.setattr(change_feed, "POLL_S", 60)
    storage = Counted()
    storage.gate.set()
    feed = ChangeFeed(app.parts.uow, storage)
    await app.memory.write.write_memory(caller.scope, draft("Maya swims."))
    async with asyncio.timeout(HEARD_S):
        while True:
            begun = (await feed.read_page(caller.scope, ALL, None, 100)).position
            if begun.stamp.number:
                break
            await asyncio.sleep(0.02)  # an older transaction hides the change
    async with feed.subscribe(caller.scope) as subscription:
        assert await subscription.wait_beyond(0, HEARD_S)
        begun = (await feed.read_page(caller.scope, ALL, None, 100)).position
        yield Stream(feed, storage, begun)


async def change_memories(app: Application, caller: Caller, stream: Stream) -> None:
    """Make changes of every kind to memories of two users, and wait until they are told."""
    written = []
    for user, category in (("maya", "tasks"), ("ben", "preferences"), ("maya", "preferences"), ("ben", "goals")):
        text, importance = f"{user} keeps a note about {category}.", len(user)
        new = draft(text, user_id=user, category=category, importance=importance)
        result = await app.memory.write.write_memory(caller.scope, new)
        assert result.id is not None
        written.append(result.id)
    edit = app.memory.edit
    await edit.patch_memory(caller.scope, written[0], {"category": "goals", "tags": ["moved"]}, version=None)
    await edit.patch_memory(caller.scope, written[1], {"importance": 5, "metadata": {"one": 1}}, version=None)
    await edit.soft_delete_memory(caller.scope, written[2])
    await edit.purge_memory(caller.scope, written[3])
    cursor = encode_change_cursor(stream.begun)
    async with asyncio.timeout(HEARD_S):
        while True:
            page = await stream.feed.read_page(caller.scope, ALL, cursor, 100)
            if page.events and page.events[-1].event == "PURGE":
                return
            await asyncio.sleep(0.02)


KEYS = (None, {"tasks"}, {"goals", "preferences"}, set[str]())
WANTED = (
    ALL,
    ChangeFilter("maya"),
    ChangeFilter("nobody"),
    ChangeFilter(where=parse_where({"importance": {"gte": 4}})),
    ChangeFilter("ben", parse_where({"metadata.one": 1})),
    ChangeFilter("ben", parse_where({"metadata.one": True})),
    ChangeFilter(where=parse_where({"category": "tasks"})),
    ChangeFilter(where=parse_where({"not": {"tags": {"contains": "moved"}}})),
)


async def test_each_hears_what_a_read_of_its_own_tells(app: Application, caller: Caller, stream: Stream) -> None:
    await change_memories(app, caller, stream)
    told = 0
    for categories in KEYS:
        key = replace(caller.scope, categories=None if categories is None else frozenset(categories))
        for wanted in WANTED:
            for shown in (False, True):
                page = await stream.hear(key, wanted, with_memories=shown)
                cursor = encode_change_cursor(stream.begun)
                own = await stream.feed.read_page(key, wanted, cursor, 100, with_memories=shown)
                assert page == own, (categories, wanted)
                told += len(page.events)
    assert told > 50


async def test_two_hundred_subscribers_read_once_for_each_filter(
    app: Application, caller: Caller, stream: Stream
) -> None:
    await change_memories(app, caller, stream)
    stream.storage.pages = 0
    keys = [replace(caller.scope, categories=None if each is None else frozenset(each)) for each in KEYS]
    await asyncio.gather(*(stream.hear(keys[n % 4], WANTED[n % 3]) for n in range(200)))
    assert stream.storage.pages == 1  # one read for all users and keys
    await asyncio.gather(*(stream.hear(caller.scope, wanted) for wanted in WANTED * 20))
    assert stream.storage.pages == 1 + 5  # and one for each `where`: 1 is not True
    await stream.hear(keys[1], WANTED[3])
    assert stream.storage.pages == 1 + 5 + 1  # a key sees other images of a memory


async def test_a_subscriber_that_is_behind_reads_for_itself(app: Application, caller: Caller, stream: Stream) -> None:
    await change_memories(app, caller, stream)
    stream.storage.pages = 0
    behind = replace(stream.begun, stamp=replace(stream.begun.stamp, number=0), record=UUID(int=0))
    pages = [await stream.hear(caller.scope, after=behind) for _ in range(2)]
    assert (stream.storage.pages, [page.encodings for page in pages]) == (2, [None, None])


async def test_a_read_goes_on_for_the_others_if_a_subscriber_leaves(
    app: Application, caller: Caller, stream: Stream
) -> None:
    await change_memories(app, caller, stream)
    stream.storage.pages = 0
    stream.storage.gate.clear()
    first, *others = (asyncio.create_task(stream.hear(caller.scope)) for _ in range(3))
    await asyncio.sleep(0)  # all wait for the same read
    first.cancel()
    stream.storage.gate.set()
    pages = await asyncio.gather(*others)
    assert (stream.storage.pages, len({id(page) for page in pages})) == (1, 1)
    assert pages[0].events


async def test_a_key_that_ends_during_a_shared_read_hears_nothing(
    app: Application, caller: Caller, stream: Stream
) -> None:
    await change_memories(app, caller, stream)
    lease = EndingLease()
    stream.storage.gate.clear()
    waiting = [asyncio.create_task(stream.hear(each)) for each in (replace(caller.scope, lease=lease), caller.scope)]
    await asyncio.sleep(0)
    lease.has_ended = True
    stream.storage.gate.set()
    refused, page = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(refused, Unauthenticated)
    assert isinstance(page, ChangePage)
    assert page.events


async def test_an_error_reaches_all_and_the_next_look_reads_again(
    app: Application, caller: Caller, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "POLL_S", 0.02)
    async with stream.feed.subscribe((other := await make_caller(app)).scope) as subscription:
        assert await subscription.wait_beyond(0, HEARD_S)
        begun = (await stream.feed.read_page(other.scope, ALL, None, 100)).position
        stream.storage.failing = True
        found = await asyncio.gather(*(stream.hear(other.scope, after=begun) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [DatabaseUnavailable] * 3
        stream.storage.failing = False
        async with asyncio.timeout(HEARD_S):
            while True:
                try:
                    assert (await stream.hear(other.scope, after=begun)).position == begun
                    return
                except DatabaseUnavailable:
                    await asyncio.sleep(0.02)
