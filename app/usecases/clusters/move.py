"""The move of a tenant to another cluster, while it is read and written to.

Each step is stored before its work begins, and its work may run twice. So a move whose process, source or target was
killed goes on when the command is run again, or goes back.

The tenant has one home at most at every moment. The residence on the target begins only after the one on the source has
ended and the stored step says `flip`. The one on the source is taken back only after the stored step says `resume` or
`undo`. One statement takes a move from `compare` to one of these.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from app.domain.clusters.copy_faults import CopyFaults, CopyWaits
from app.domain.clusters.move import (
    ENDED,
    FORWARD_ONLY,
    Move,
    MoveOutcome,
    MovePlan,
    MoveProgress,
    MoveStep,
    ReportProgress,
)
from app.domain.clusters.room import write_bytes
from app.domain.errors import ConfigError, NotFound, WrongState
from app.domain.outages import DatabaseUnavailable
from app.storage.clusters import moves as residences
from app.storage.clusters import replication
from app.storage.clusters.comparison import Comparison, count_rows, open_comparison
from app.storage.clusters.move_session import UNREACHABLE, MoveCluster, MoveSession, open_sessions
from app.storage.clusters.moves import Ended, MoveRows
from app.storage.tenancy.copy_removal import remove_copy

COPY_POLL_S = 0.2
MARK_POLL_S = 0.01
DIRECTORY_S = 15.0
"""The seconds that the target's copy of the directory may be behind. After a restart it stands still for up to five."""
RECONNECT_S = 1.0
LOSSES = 5
"""The losses of a cluster after which a run of a move ends instead of waiting once more."""


class ClusterLost(DatabaseUnavailable, code="database_unavailable"):
    """A cluster no longer answers while a tenant moves; run the command again when it does."""


@dataclass(frozen=True, slots=True)
class MovePolicy:
    """Bounds of a move. `pause_s`: how long the tenant may be without a home before the move goes back, in seconds.

    `fences`: how often it tries to end the residence while writes hold it, and `rest_s` the seconds between two tries.
    `comparisons`: how often it compares again from the start, after it went back. `away_s`: how long it waits for a
    cluster that it lost. `copy_faults_s`: how long the copying workers may fail before the move goes back, and
    `copy_waits_s` how long there may be none.
    """

    pause_s: float = 30.0
    fences: int = 30
    rest_s: float = 2.0
    comparisons: int = 3
    away_s: float = 60.0
    copy_faults_s: float = 30.0
    copy_waits_s: float = 60.0


@dataclass(slots=True)
class _Run:
    """The connections and results that the steps of one run share."""

    source: MoveSession
    target: MoveSession
    rows: MoveRows
    tables: Mapping[str, list[str]]
    stack: AsyncExitStack
    comparison: Comparison | None = None
    largest: Sequence[str] = ()
    paused_at: float | None = None
    pause_s: float | None = None
    tries: int = 0


class MoveTenants:
    """Moves of tenants between the clusters, whose first one keeps the directory."""

    def __init__(
        self,
        clusters: Mapping[str, MoveCluster],
        directory: str,
        report: ReportProgress = lambda progress: None,
        policy: MovePolicy | None = None,
    ) -> None:
        self._clusters = clusters
        self._directory = directory
        self._report = report
        self._policy = policy or MovePolicy()
        self._steps: Mapping[MoveStep, Callable[[_Run, Move], Awaitable[Move]]] = {
            MoveStep.requested: self._check,
            MoveStep.prepare: self._prepare,
            MoveStep.copy: self._copy,
            MoveStep.fence: self._fence,
            MoveStep.compare: self._compare,
            MoveStep.flip: self._flip,
            MoveStep.clean: self._clean,
            MoveStep.resume: self._resume,
            MoveStep.undo: self._undo,
        }

    async def plan_move(self, tenant_id: UUID, target: str, *, leave_region: bool = False) -> MovePlan:
        """Return what a move would do, and what forbids it. It changes nothing."""
        async with self._open_run(tenant_id, target) as run:
            return await self._plan(run, tenant_id, leave_region=leave_region)

    async def move_tenant(self, tenant_id: UUID, target: str, *, leave_region: bool = False) -> MoveOutcome:
        """Move the tenant to the cluster `target`, or go on with the unfinished move there.

        Wait for a cluster that is lost meanwhile. Raise ConfigError for an unknown cluster, NotFound for an unknown
        tenant, WrongState if something forbids the move or it went back, and DatabaseUnavailable.
        """
        for _ in range(LOSSES):
            try:
                return await self._move_tenant(tenant_id, target, leave_region=leave_region)
            except ClusterLost as error:
                await self._await_clusters(tenant_id, target, error)
        return await self._move_tenant(tenant_id, target, leave_region=leave_region)

    async def _await_clusters(self, tenant_id: UUID, target: str, lost: ClusterLost) -> None:
        """Wait until the clusters of a move answer again. Raise `lost` after `away_s` seconds."""
        until = time.monotonic() + self._policy.away_s
        while time.monotonic() < until:
            await asyncio.sleep(RECONNECT_S)
            try:
                async with self._open_run(tenant_id, target):
                    return
            except DatabaseUnavailable:
                continue
        raise lost

    async def _move_tenant(self, tenant_id: UUID, target: str, *, leave_region: bool) -> MoveOutcome:
        async with self._open_run(tenant_id, target) as run:
            await run.rows.take_lock()
            move = await run.rows.find_unfinished()
            if move is None:
                plan = await self._plan(run, tenant_id, leave_region=leave_region)
                if plan.problems:
                    raise WrongState("; ".join(plan.problems))
                await residences.resume_residence(run.source, tenant_id, run.rows, None)
                move = await run.rows.begin_move(plan.source, target, {"leave_region": leave_region})
            elif move.target != target:
                raise WrongState(f"the tenant is moving to {move.target}: finish that move, or end it with --abort")
            move = await self._go_on(run, move)
            if move.step is MoveStep.undone:
                raise WrongState(f"the move went back, the tenant stays in {move.source}: {move.details['why']}")
            return MoveOutcome(move, run.pause_s)

    async def finish_move(self, tenant_id: UUID) -> Move | None:
        """Go on with the unfinished move, forward or back; return it as it ended, None if there is none.

        Raise WrongState if another process moves the tenant, or DatabaseUnavailable.
        """
        async with self._open_run(tenant_id) as run:
            await run.rows.take_lock()
            move = await run.rows.find_unfinished()
            return None if move is None else await self._go_on(run, move)

    async def abort_move(self, tenant_id: UUID) -> Move:
        """Undo the unfinished move, or wait until the process that runs it has done so.

        Raise NotFound if there is none, WrongState if it can only go forward.
        """
        async with self._open_run(tenant_id) as run:
            asked = await run.rows.ask_to_abort()
            while not await run.rows.try_lock():
                if asked is None:
                    raise WrongState("another process works on this tenant, and no move of it can be undone now")
                asked = await run.rows.read_again(asked)
                self._report(MoveProgress(asked.step))
                if asked.step in ENDED:
                    return asked
                await asyncio.sleep(COPY_POLL_S)
            move = await run.rows.find_unfinished() if asked is None else await run.rows.read_again(asked)
            if move is None:
                await residences.resume_residence(run.source, tenant_id, run.rows, None)
                raise NotFound("the tenant is not moving")
            if move.step in FORWARD_ONLY:
                raise WrongState(f"the tenant is at home in {move.target} already: run the move again to finish it")
            return await self._go_on(run, move)

    async def note_presence(self) -> None:
        """Note in the directory that this process can move tenants. Raise DatabaseUnavailable."""
        try:
            async with open_sessions(self._find(self._directory)) as [directory]:
                await directory.fetch_rows("see_mover")
        except UNREACHABLE as error:
            raise DatabaseUnavailable("the cluster with the directory does not answer") from error

    async def forget_old(self, tenant_id: UUID) -> Mapping[str, int]:
        """Delete the copies that moves left in all former homes; return the number of rows by table.

        Former homes that MNEMA_CLUSTERS no longer names are left out. Raise DatabaseUnavailable if one does not
        answer, after the copies in the others are deleted.
        """
        counts: Counter[str] = Counter()
        away: DatabaseUnavailable | None = None
        async with self._open_run(tenant_id) as run:
            await run.rows.take_lock()
            if await run.rows.find_unfinished() is not None:
                raise WrongState("the tenant is moving: finish the move first")
            former = await run.rows.list_former()
            if not former:
                raise NotFound("the tenant has never moved")
            for name in filter(self._clusters.__contains__, former):
                try:
                    async with open_sessions(self._clusters[name]) as [session]:
                        counts.update(await remove_copy(session, tenant_id, run.tables))
                        await residences.forget_residence(session, tenant_id)
                except DatabaseUnavailable as error:
                    away = error
                else:
                    await run.rows.settle_erasures(name)
        if away is not None:
            raise away
        return counts

    @asynccontextmanager
    async def _open_run(self, tenant_id: UUID, target: str | None = None) -> AsyncIterator[_Run]:
        """Open the connections of a move to `target`; without one, of the unfinished move.

        Raise DatabaseUnavailable if a cluster does not answer.
        """
        try:
            async with self._connect(tenant_id, target) as run:
                yield run
        except UNREACHABLE as error:
            raise DatabaseUnavailable("a cluster does not answer; run the command again when it does") from error

    @asynccontextmanager
    async def _connect(self, tenant_id: UUID, target: str | None) -> AsyncIterator[_Run]:
        async with open_sessions(self._find(self._directory)) as [directory]:
            rows = MoveRows(directory, tenant_id)
            move = await rows.find_unfinished()
            source = (await rows.find_placement()).cluster if move is None else move.source
            goal = move.target if move is not None else target or source
            async with open_sessions(self._find(source), self._find(goal)) as [there, here], AsyncExitStack() as stack:
                try:
                    yield _Run(there, here, rows, await replication.list_tables(there), stack)
                except (DatabaseUnavailable, *UNREACHABLE) as error:
                    lost = f"{_name_lost(directory, there, here)} no longer answers: {error}"
                    text = error.detail if isinstance(error, DatabaseUnavailable) else lost
                    raise ClusterLost(f"{text}; run the command again when it does") from error

    def _find(self, name: str) -> MoveCluster:
        if name not in self._clusters:
            raise ConfigError(f"unknown cluster {name!r}; there are: {', '.join(self._clusters)}")
        return self._clusters[name]

    async def _plan(self, run: _Run, tenant_id: UUID, *, leave_region: bool) -> MovePlan:
        source, target = run.source.cluster, run.target.cluster
        if source.name == target.name:
            raise WrongState(f"the tenant is at home in {source.name} already")
        placement = await run.rows.find_placement()
        problems = await replication.find_problems(run.source, run.target, run.tables)
        if placement.region is not None and target.region != placement.region and not leave_region:
            problems.append(
                f"the tenant is bound to the region {placement.region}, and {target.name} is in"
                f" {target.region or 'none'}: --leave-region moves it all the same"
            )
        if await run.target.fetch_value("draining"):
            problems.append(f"{target.name} takes no tenants: `mnema cluster drain {target.name} --undo` changes that")
        if not await self._await_tenant(run, tenant_id):
            problems.append(f"{target.name} does not have the tenant yet: its copy of the directory is behind")
        if await residences.is_home(run.target, tenant_id):
            problems.append(f"{target.name} says it is the tenant's home, as after a restore: run `mnema migrate`")
        rows = await count_rows(run.source, tenant_id, list(run.tables))
        size = await replication.estimate_bytes(run.source, rows)
        room = await replication.read_room(run.target)
        if not room.takes(size):
            problems.append(
                f"{target.name} has no room: its database takes {room}, its max_bytes, and the tenant about"
                f" {write_bytes(size)}"
            )
        return MovePlan(tenant_id, source.name, target.name, rows, size, room, tuple(problems))

    async def _await_tenant(self, run: _Run, tenant_id: UUID) -> bool:
        """Wait until the target's copy of the directory has the tenant; return False if it is far behind."""
        until = time.monotonic() + DIRECTORY_S
        while not await run.target.fetch_value("known_tenant", tenant_id):
            if time.monotonic() > until:
                return False
            await asyncio.sleep(COPY_POLL_S)
        return True

    async def _go_on(self, run: _Run, move: Move) -> Move:
        """Run the steps until the move has ended. An aborted move is undone from the next step on."""
        while move.step not in ENDED:
            self._report(MoveProgress(move.step))
            if move.is_aborted and move.step not in FORWARD_ONLY | {MoveStep.undo}:
                end = MoveStep.undone if move.step is MoveStep.requested else MoveStep.undo
                move = await run.rows.advance(move, end)
            else:
                move = await self._steps[move.step](run, move)
        self._report(MoveProgress(move.step))
        return move

    async def _check(self, run: _Run, move: Move) -> Move:
        """Begin a move that was asked for, unless something forbids it."""
        problems = list((await self._plan(run, move.tenant_id, leave_region=False)).problems)
        if (await run.rows.find_placement()).cluster != move.source:
            problems.append("the tenant has moved since")
        if problems:
            why = "; ".join(problems)
            return await run.rows.advance(move, MoveStep.undone, {"why": why}, why)
        await residences.resume_residence(run.source, move.tenant_id, run.rows, move)
        return await run.rows.advance(move, MoveStep.prepare)

    async def _prepare(self, run: _Run, move: Move) -> Move:
        await replication.drop_copying(run.source, run.target, move)
        await remove_copy(run.target, move.tenant_id, run.tables)
        await replication.add_missing_weeks(run.source, run.target)
        return await run.rows.advance(move, MoveStep.copy)

    async def _copy(self, run: _Run, move: Move) -> Move:
        """Replicate until every table follows the source."""
        if not await residences.is_home(run.source, move.tenant_id):
            return await run.rows.advance(move, MoveStep.resume)
        faults = CopyFaults(self._policy.copy_faults_s)
        waits = CopyWaits(self._policy.copy_waits_s)
        subscription = await replication.start_copy(run.source, run.target, move, list(run.tables))
        move = await run.rows.advance(move, MoveStep.copy, {"subscription": subscription})  # names its tables' slots
        while move.step is MoveStep.copy and not move.is_aborted:
            state = await replication.read_copy_state(run.target, subscription)
            self._report(MoveProgress(MoveStep.copy, state.ready, state.tables))
            if why := await self._find_copy_fault(run, move, state, faults, waits):
                return await run.rows.advance(move, MoveStep.undo, {"why": why}, why)
            if state.tables == state.ready > 0:
                return await run.rows.advance(move, MoveStep.fence)
            counts = {"copied": state.ready, "tables": state.tables}
            if counts.items() <= move.details.items():
                move = await run.rows.read_again(move)
            else:
                move = await run.rows.advance(move, MoveStep.copy, counts)
            await asyncio.sleep(COPY_POLL_S)
        return move

    async def _find_copy_fault(
        self, run: _Run, move: Move, state: replication.CopyState, faults: CopyFaults, waits: CopyWaits
    ) -> str | None:
        """Return why the copy will never end, None if it may. The source is asked first: it may be away."""
        if why := await replication.find_lost_slot(run.source, move):
            return why
        if faults.are_lasting(state.ready, state.errors, time.monotonic()):
            source = run.source.cluster.name
            target = run.target.cluster.name
            return (
                f"{target} cannot copy from {source}, which answers: the log of PostgreSQL in {target} says what fails"
            )
        if waits.are_lasting(state.ready, time.monotonic(), waits=state.waits):
            return await replication.explain_waiting(run.target)
        return None

    async def _fence(self, run: _Run, move: Move) -> Move:
        """End the residence on the source, unless a former run did."""
        await _open_comparison(run)  # before the pause
        rows = await count_rows(run.source, move.tenant_id, list(run.tables))
        run.largest = sorted(rows, key=lambda table: rows[table], reverse=True)
        for _ in range(self._policy.fences):
            if not await residences.is_home(run.source, move.tenant_id):
                return await run.rows.advance(move, MoveStep.resume)
            if (move := await run.rows.read_again(move)).is_aborted:
                return move
            began = time.monotonic()
            ended = await residences.end_residence(run.source, move.tenant_id)
            if ended is not None:
                run.paused_at = began
                details = {"epoch": ended.epoch, "database_epoch": str(ended.database_epoch), "up_to": ended.up_to}
                return await run.rows.advance(move, MoveStep.compare, details)
            await asyncio.sleep(self._policy.rest_s)
        raise WrongState("writes of the tenant hold its home for long; run the command again later")

    async def _compare(self, run: _Run, move: Move) -> Move:
        """Wait until the target has the last write; compare. Go back if something differs, or if it takes too long."""
        try:
            async with asyncio.timeout(self._policy.pause_s):
                comparison = await _open_comparison(run)
                await self._wait_for_mark(run, move)
                different = await comparison.find_differences(move.tenant_id, run.largest)
        except TimeoutError:
            why = f"the comparison took more than {self._policy.pause_s:.0f} s"
            return await run.rows.advance(move, MoveStep.resume, {"why": why})
        except (DatabaseUnavailable, *UNREACHABLE) as error:
            # if it is the target that is away, the source takes writes again
            why = f"{_name_lost(run.source, run.target)} does not answer: {type(error).__name__}"
            return await run.rows.advance(move, MoveStep.resume, {"why": why})
        if different:
            why = f"these tables differ: {', '.join(different)}"
            return await run.rows.advance(move, MoveStep.undo, {"why": why}, why)
        return await run.rows.advance(move, MoveStep.flip)

    async def _wait_for_mark(self, run: _Run, move: Move) -> None:
        ended = _ended(move)
        mark = move.tenant_id, ended.database_epoch, ended.up_to
        while True:
            if await run.target.fetch_value("has_mark", *mark, tenant_id=move.tenant_id):
                return
            await asyncio.sleep(MARK_POLL_S)

    async def _flip(self, run: _Run, move: Move) -> Move:
        """Begin the residence on the target, then write the placement."""
        ended = _ended(move)
        await residences.begin_residence(run.target, move.tenant_id, ended)
        if run.paused_at is not None:
            run.pause_s = time.monotonic() - run.paused_at
        await run.rows.place(move.target, ended.epoch, leave_region=move.details["leave_region"])
        return await run.rows.advance(move, MoveStep.clean)

    async def _clean(self, run: _Run, move: Move) -> Move:
        await replication.drop_copying(run.source, run.target, move)
        await run.rows.settle_erasures(move.target)  # the copy that owed them was replaced
        return await run.rows.advance(move, MoveStep.done)

    async def _resume(self, run: _Run, move: Move) -> Move:
        """Take the residence back, and try again while the copy goes on."""
        await residences.resume_residence(run.source, move.tenant_id, run.rows, move)
        run.tries += 1
        if run.tries >= self._policy.comparisons:
            return await run.rows.advance(move, MoveStep.undo)
        await asyncio.sleep(self._policy.rest_s)
        return await run.rows.advance(move, MoveStep.copy)

    async def _undo(self, run: _Run, move: Move) -> Move:
        await residences.resume_residence(run.source, move.tenant_id, run.rows, move)
        await replication.drop_copying(run.source, run.target, move)
        await remove_copy(run.target, move.tenant_id, run.tables)
        await residences.forget_residence(run.target, move.tenant_id)  # a former home has no copy any more
        await run.rows.settle_erasures(run.target.cluster.name)
        return await run.rows.advance(move, MoveStep.undone)


def _name_lost(*sessions: MoveSession) -> str:
    """Return the clusters whose connections are closed, for a sentence."""
    names = dict.fromkeys(session.cluster.name for session in sessions if session.connection.is_closed())
    return f"the cluster {' and '.join(names)}" if names else "a cluster"


async def _open_comparison(run: _Run) -> Comparison:
    if run.comparison is None:
        clusters = run.source.cluster, run.target.cluster
        run.comparison = await run.stack.enter_async_context(open_comparison(*clusters, run.tables))
    return run.comparison


def _ended(move: Move) -> Ended:
    details = move.details
    return Ended(details["epoch"], UUID(details["database_epoch"]), details["up_to"])
