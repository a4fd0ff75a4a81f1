"""Writing the turns of turn memory: logs and fingerprints."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID
from weakref import WeakValueDictionary

from mnema_wire.turn_limits import MAX_TAG, MAX_TAGS, MAX_TITLE

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import InvalidInput, NotFound
from app.domain.ids import past_moment
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.turn_memory.active_set import find_active_set
from app.domain.turn_memory.artifacts import Artifact, ArtifactKind, Conversation
from app.domain.turn_memory.fingerprint import Fingerprint, parse_fingerprint, read_fingerprint, whole_milliseconds
from app.domain.turn_memory.signals import read_text
from app.domain.turn_memory.turn_state import TurnLog, TurnState, changed_rows, parse_turn_log, reconcile_jobs
from app.ports import Clock
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork
from app.usecases.offload import offload_if_large
from app.usecases.tenancy.limits import Limits
from app.usecases.turn_memory.blobs import StoreBlobs

PATIENCE_S: Final = 2.0
"""The longest wait in the queue. Then a writer goes ahead, and the versions decide."""
ATTEMPTS = 20
LONGEST_WAIT_S = 0.1
NO_SUCH_TURN = "no such turn in this conversation of this user"


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn to store. None keeps what is stored. `made_at` None is now, or the time of the stored turn."""

    turn_id: str
    user_text: str
    assistant_text: str | None = None
    summary: str | None = None
    extra: Mapping[str, Any] | None = None
    track_id: str | None = None
    made_at: datetime | None = None
    conversation_title: str = ""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn after a change: its log, its fingerprint if it has one, and the rows that were written."""

    state: TurnState
    rows: Sequence[Artifact]

    @property
    def created(self) -> bool:
        """True if the turn had no log before."""
        return self.state.of_kind(ArtifactKind.turn_log) is None


class WriterQueue:
    """Locks of conversations. They save retries and decide nothing: versions keep writers of all processes apart."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[UUID, Conversation], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def wait_turn(self, principal: Principal, conversation: Conversation) -> AsyncIterator[None]:
        """Wait until no other writer of this process changes the conversation, at most PATIENCE_S."""
        lock = self._locks.setdefault((principal.tenant_id, conversation), asyncio.Lock())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await lock.acquire()
        except TimeoutError:
            yield
            return
        try:
            yield
        finally:
            lock.release()


class ChangeTurns:
    """The use-cases that write turns. Log, fingerprint, tags and active set of a turn change in one transaction.

    All raise CategoryNotAllowed for a key that may not use the category of turn memory, and QuotaExceeded,
    BlobStoreUnavailable or WriteContention.
    """

    def __init__(
        self,
        uow: UnitOfWork,
        artifacts: ArtifactStorage,
        blobs: StoreBlobs,
        limits: Limits,
        policies: TenantPolicies,
        clock: Clock,
        *,
        reconciles: bool = True,
    ) -> None:
        self._uow = uow
        self._artifacts = artifacts
        self._blobs = blobs
        self._limits = limits
        self._policies = policies
        self._clock = clock
        self._queue = WriterQueue()
        self._reconciles = reconciles

    async def put_turn(self, principal: Principal, conversation: Conversation, turn: NewTurn) -> StoredTurn:
        """Store the log of a turn, or change it. Its fingerprint and reactions stay. Raise InvalidInput."""
        title = read_text(turn.conversation_title, "conversation_title", MAX_TITLE)

        def change(state: TurnState) -> TurnState:
            stored = state.log
            log = TurnLog(
                turn.turn_id,
                self._moment(turn.made_at, stored.made_at if stored else None, state.now),
                turn.user_text,
                _given(turn.assistant_text, stored.assistant_text if stored else ""),
                _given(turn.summary, stored.summary if stored else ""),
                stored.fingerprint if stored else None,
                stored.feedbacks if stored else (),
                _given(turn.extra, stored.extra if stored else None),
            )
            return replace(state, log=log, track_id=turn.track_id or state.track_id).with_title(title)

        return await self.change_turn(principal, conversation, turn.turn_id, change)

    async def put_fingerprint(
        self,
        principal: Principal,
        conversation: Conversation,
        turn_id: str,
        raw: Mapping[str, Any],
        *,
        made_at: datetime | None = None,
        track_id: str | None = None,
        extra_tags: Sequence[str] = (),
    ) -> Fingerprint:
        """Give a turn a fingerprint in place of the one before. A turn without a log gets one. Raise InvalidInput."""
        tags = _checked_tags(extra_tags)

        def change(state: TurnState) -> TurnState:
            stored = state.fingerprint.made_at if state.fingerprint else None
            fingerprint = read_fingerprint(turn_id, self._moment(made_at, stored, state.now), raw)
            return replace(state.with_fingerprint(fingerprint, tags), track_id=track_id or state.track_id)

        stored = await self.change_turn(principal, conversation, turn_id, change)
        if stored.state.fingerprint is None:
            raise AssertionError("a fingerprint was stored")
        return stored.state.fingerprint

    async def change_turn(
        self, principal: Principal, conversation: Conversation, turn_id: str, change: Callable[[TurnState], TurnState]
    ) -> StoredTurn:
        """Read the turn, apply `change` to its state, and store what changed. Start again if others changed it.

        `change` may run several times. Its own errors end the call.
        """
        principal.require_categories([self._policies.of(principal).turn_memory.category])
        async with self._limits.reserve_write(principal), self._queue.wait_turn(principal, conversation):
            for attempt in range(ATTEMPTS):
                if (before := await self._find_turn(principal, conversation, turn_id)) is not None:
                    after = change(before)
                    with contextlib.suppress(WriteContention):
                        return await self._store_change(principal, conversation, before, after)
                await asyncio.sleep(random.uniform(0, min(LONGEST_WAIT_S, 0.005 * 2**attempt)))
        raise WriteContention()

    async def _find_turn(self, principal: Principal, conversation: Conversation, turn_id: str) -> TurnState | None:
        """Return the state of a turn, or None if another write deleted its row and blob in between."""
        try:
            return await self.read_turn(principal, conversation, turn_id)
        except NotFound:
            return None

    async def read_turn(self, principal: Principal, conversation: Conversation, turn_id: str) -> TurnState:
        """Return the state of a turn; one that is not stored has no log and no fingerprint.

        Raise NotFound if its blob is missing: the turn was changed in between.
        """
        async with self._uow.read(principal) as tx:
            stored = await self._artifacts.get_turn(tx, principal, conversation, turn_id)
        by_kind = {artifact.kind: artifact for artifact in stored}
        active, _version = find_active_set(stored)
        state = TurnState(turn_id, whole_milliseconds(self._clock.now()), active=active, stored=tuple(stored))
        if printed := by_kind.get(ArtifactKind.fingerprint):
            fingerprint = parse_fingerprint(json.loads(printed.text))
            own = set(fingerprint.tags())
            tags = tuple(tag for tag in printed.tags if tag not in own)
            state = replace(state, fingerprint=fingerprint, tags=tags, track_id=printed.track_id)
        if (row := by_kind.get(ArtifactKind.turn_log)) and row.hosted_uri is not None:
            content = await self._blobs.read_blob(principal, row.hosted_uri)
            payload = await offload_if_large(len(content), json.loads, content)
            state = replace(state, log=parse_turn_log(payload, row.made_at), track_id=row.track_id)
        return state

    async def _store_change(
        self, principal: Principal, conversation: Conversation, before: TurnState, after: TurnState
    ) -> StoredTurn:
        uri = None
        if after.log is not None and (after.log != before.log or after.track_id != before.track_id):
            uri = await self._blobs.store_blob(
                principal, conversation.user_id, json.dumps(after.log.as_payload(), ensure_ascii=False).encode()
            )
        rows = changed_rows(before, after, uri)
        every = self._policies.of(principal).turn_memory.reconcile_every if self._reconciles else 0
        jobs = reconcile_jobs(before, after, conversation, every)
        stored = await self._artifacts.put_artifacts(principal, conversation, rows, jobs) if rows else []
        return StoredTurn(after, stored)

    def _moment(self, given: datetime | None, stored: datetime | None, now: datetime) -> datetime:
        return whole_milliseconds(past_moment(given, now, "made_at") if given or stored is None else stored)


def _given(value: Any, stored: Any) -> Any:
    return stored if value is None else value


def _checked_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags of a caller. Raise InvalidInput for too many, too long ones, or one that begins with `_`."""
    if len(tags) > MAX_TAGS or any(not 1 <= len(tag) <= MAX_TAG or tag.startswith("_") for tag in tags):
        raise InvalidInput(
            f"at most {MAX_TAGS} extra_tags of 1 to {MAX_TAG} characters; none begins with _", param="extra_tags"
        )
    return list(dict.fromkeys(tags))
