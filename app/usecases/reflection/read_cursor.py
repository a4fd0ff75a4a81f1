"""The cursor of reflection: how far each kind has read each thread of a user."""

from datetime import datetime, timedelta

from app.config.tenant_policies import TenantPolicies
from app.domain.days import start_of_day
from app.domain.principal import Principal
from app.domain.reflection.transcript import ReadPosition, ReflectionKind, Transcript
from app.ports import Clock
from app.storage.engine import LONG_S
from app.storage.reflection.transcripts import WHOLE_USER, ReflectionStorage
from app.storage.uow import UnitOfWork, WriteTx
from app.usecases.reflection.results import Bounds, ReadStep, ReflectionResult, SkipReason


class ReadCursor:
    """The positions up to which each kind of reflection has read each thread of a user."""

    def __init__(self, uow: UnitOfWork, storage: ReflectionStorage, policies: TenantPolicies, clock: Clock) -> None:
        self.uow = uow
        self.storage = storage
        self.policies = policies
        self.clock = clock

    async def load_unread(
        self, principal: Principal, result: ReflectionResult, bounds: Bounds, *, dry_run: bool, again: bool
    ) -> Transcript | SkipReason:
        """Return the oldest turns of a thread that this kind has not read, or the reason why they cannot be read yet.

        `again`: this reading continues one that began after the cooldown. An assistant's turn without a later turn of
        the user waits for that turn.
        """
        assert result.thread_id is not None
        now = self.clock.now()
        policies = self.policies.of(principal)
        hidden = policies.categories.agents_without_category(bounds.category)
        async with self.uow.write(principal) as tx:
            transcript = await self.storage.load_transcript(
                tx,
                principal,
                result.user_id,
                result.thread_id,
                result.kind,
                policies.turn_category,
                bounds.window,
                hidden,
                now,
                begin=not dry_run,
            )
        if transcript is None or not transcript.unread:
            return "nothing_new"
        is_due = again or bounds.cooldown.is_over(transcript.unread, transcript.mark.at, now)
        return transcript if is_due else "resting"

    async def list_waiting(
        self, principal: Principal, kind: ReflectionKind, bounds: Bounds, user_id: str | None, limit: int
    ) -> list[tuple[str, str]]:
        """Return users and threads whose unread turns have waited for the whole cooldown, at most `limit`."""
        before = self.clock.now() - timedelta(minutes=bounds.cooldown.minutes)
        policies = self.policies.of(principal)
        hidden = policies.categories.agents_without_category(bounds.category)
        async with self.uow.read(principal, timeout_s=LONG_S) as tx:  # it scans every thread that was ever read
            return await self.storage.list_waiting(
                tx,
                principal,
                user_id,
                kind,
                before,
                policies.turn_category,
                hidden,
                limit,
                self.start_of_day(),
                bounds.per_user_day,
            )

    def step_past(self, result: ReflectionResult, transcript: Transcript) -> ReadStep:
        """Return the step to the end of a transcript."""
        new = ReadPosition(transcript.revs[-1], self.clock.now())
        return ReadStep(result.user_id, result.thread_id or WHOLE_USER, result.kind, transcript.mark, new)

    async def advance_position(self, tx: WriteTx, principal: Principal, step: ReadStep) -> bool:
        """Move the position; return False if another worker has moved it since it was read."""
        return await self.storage.advance_position(
            tx, principal, step.user_id, step.thread_id, step.kind, step.old, step.new
        )

    async def count_failed_try(self, principal: Principal, step: ReadStep, least: int = 1) -> int:
        """Count a reading without a usable answer; return the failures in a row, or `least` if that is more."""
        async with self.uow.write(principal) as tx:
            return await self.storage.count_failed_read(
                tx, principal, step.user_id, step.thread_id, step.kind, step.old, least
            )

    def start_of_day(self) -> datetime:
        """Return the midnight (UTC) at which the present day began."""
        return start_of_day(self.clock.now())
