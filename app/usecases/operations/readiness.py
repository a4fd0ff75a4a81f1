"""Readiness: the checks of everything that a server needs to serve requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from app.domain.clusters.move import ErasureOwed
from app.domain.errors import MnemaError
from app.domain.outages import (
    BlobStoreUnavailable,
    BrokerUnavailable,
    ChatModelUnavailable,
    ClockSkew,
    DatabaseReadOnly,
    DatabaseUnavailable,
    EmbedderUnavailable,
    RerankerUnavailable,
    SpoolUnavailable,
    TenantMoving,
)
from app.ports import BlobStore, ChatModel, Embedder, Reranker, TrustedClock, TurnSpool
from app.storage.clusters.audit import list_misplaced
from app.storage.clusters.routing import ClusterUnitOfWork
from app.storage.engine import ROLE, refuse_privileged
from app.storage.operations.schema import require_schema
from app.storage.operations.spaces import require_space
from app.storage.replicas import Replicas
from app.storage.uow import Row, UnitOfWork

Check: TypeAlias = Callable[[], Awaitable[str | None]]
"""A check. It returns its verdict (None means `ok`), or raises a MnemaError that says what is wrong."""

PATIENCE_S = 3.5
"""Seconds after which a part counts as not answering, because a load balancer does not wait long."""

DATABASE = "The database does not answer: check MNEMA_DATABASE_URL and that PostgreSQL runs there"
READ_ONLY = (
    "The database takes no writes: it is a standby, or default_transaction_read_only is on; "
    "promote it, or point MNEMA_DATABASE_URL at the primary"
)
EMBEDDER = "Check MNEMA_EMBEDDING_BASE_URL and its endpoint; for the local model, check that MNEMA_HOME is writable."
RERANKER = (
    "Check MNEMA_RERANKER_BASE_URL and its endpoint; for local, check the files in MNEMA_RERANKER_MODEL; "
    "for fastembed, check that its model files can be downloaded."
)
BLOBS = "Check MNEMA_BLOB_S3_* and that the keys may read and list the bucket."
LLM = "Check MNEMA_LLM_BASE_URL and its endpoint."
NO_CHAT_MODEL = "none: this environment configures no chat model, which is no failure; see LLM_BASE_URL and LLM_MODEL"
"""The verdict on the chat model if none is configured. The doctor's environment may differ from the server's."""

_IS_READ_ONLY = "SELECT current_setting('transaction_read_only')::boolean AS read_only"
LOCKED_S = 3.0
"""Seconds that a session may wait for a table."""
_LOCKED_TABLES = (
    "SELECT relation::regclass::text AS name, extract(epoch FROM max(clock_timestamp() - waitstart)) AS seconds "
    "FROM pg_locks WHERE NOT granted AND locktype = 'relation' "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND clock_timestamp() - waitstart > make_interval(secs => $1) GROUP BY relation ORDER BY 1 LIMIT 10"
)
BEHIND_S = 120
"""Seconds that a due job may wait before the check warns; a hanging worker does not report itself."""


class Readiness:
    """The readiness checks. A verdict is `ok`, NO_CHAT_MODEL, or says what is wrong and how to fix it."""

    OPTIONAL = frozenset(
        {"broker", "workers", "pauses", "reranker", "llm", "blobs", "replicas", "insights", "schema", "other_databases"}
        | {"parsers", "chat_spool", "languages", "large_objects", "past", "clusters", "moves", "placements"}
    )
    """Checks that may fail while reading and writing go on."""

    @staticmethod
    def failed_checks(checks: Mapping[str, str]) -> set[str]:
        """Return the names of the failed checks."""
        return {name for name, verdict in checks.items() if verdict not in ("ok", NO_CHAT_MODEL)}

    def __init__(
        self,
        uow: UnitOfWork,
        embedder: Embedder,
        reranker: Reranker,
        chat: ChatModel,
        broker: Callable[[], None],
        patience_s: float = PATIENCE_S,
        secret: Callable[[], Awaitable[None]] | None = None,
        blobs: BlobStore | None = None,
        worker: Callable[[], None] = lambda: None,
        replicas: Replicas | None = None,
        clock: TrustedClock | None = None,
        spool: TurnSpool | None = None,
        *,
        is_thorough: bool = False,
    ) -> None:
        """Set up the checks; each takes `patience_s` seconds at most.

        `broker` raises BrokerUnavailable if the broker does not answer, `worker` if no worker reports there; both may
        block for a moment. `secret` raises ConfigError if the other replicas have another secret; None leaves that
        check out, and so do None for `blobs`, `clock` and `spool`, and no members of `replicas`. `is_thorough`: also
        the checks that read all placements of tenants.
        """
        self._is_thorough = is_thorough
        self._replicas = replicas if replicas and replicas.members else None
        self._clock = clock
        self._spool = spool
        self._call_worker = worker
        self._blobs = blobs
        self._require_secret = secret
        self._patience_s = patience_s
        self._uow = uow
        self._embedder = embedder
        self._reranker = reranker
        self._chat = chat
        self._call_broker = broker

    @property
    def chat_model(self) -> str | None:
        """The name of the chat model, None if there is none."""
        return self._chat.name or None

    async def run_checks(self) -> dict[str, str]:
        """Run all checks concurrently and return the verdicts by name, after little more than `patience_s`."""
        checks: dict[str, Check] = {
            "database": self._check_database,
            "locks": self._check_locks,
            **(
                {"clusters": self._check_clusters, "moves": self._check_moves}
                if isinstance(self._uow, ClusterUnitOfWork)
                else {}
            ),
            **(
                {"placements": self._check_placements}
                if self._is_thorough and isinstance(self._uow, ClusterUnitOfWork)
                else {}
            ),
            **({"replicas": self._check_replicas} if self._replicas else {}),
            **({"clock": self._check_clock} if self._clock else {}),
            "migrations": self._check_migrations,
            "role": self._check_role,
            "embedding_space": self._check_space,
            **({"secret": self._check_secret} if self._require_secret else {}),
            "embedder": self._check_embedder,
            "reranker": self._check_reranker,
            "llm": self._check_chat_model,
            **({"blobs": self._check_blobs} if self._blobs else {}),
            **({"chat_spool": self._check_spool} if self._spool else {}),
            "broker": self._check_broker,
            "workers": self._check_workers,
            "pauses": self._check_pauses,
        }
        verdicts = await asyncio.gather(*map(_run_check, checks.values()), return_exceptions=True)
        return _verdict_texts(dict(zip(checks, verdicts, strict=True)))

    async def _check_spool(self) -> None:
        assert self._spool is not None
        try:
            async with asyncio.timeout(self._patience_s):
                await self._spool.require_room()
        except TimeoutError as error:
            raise SpoolUnavailable("the disk of MNEMA_CHAT_SPOOL does not answer") from error

    async def _check_broker(self) -> None:
        await self._ask_broker(self._call_broker)

    async def _ask_broker(self, question: Callable[[], None]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await asyncio.to_thread(question)
        except TimeoutError as error:
            raise BrokerUnavailable() from error

    async def _check_workers(self) -> None:
        """Check for the sign of a live worker first: due jobs may also wait for workers that are busy or hang."""
        await self._ask_broker(self._call_worker)
        async with _database_time_limit(self._patience_s):
            rows = await self._uow.call_everywhere("SELECT jobs_behind() AS seconds")
        behind = max(row["seconds"] or 0.0 for row in rows)
        if behind > BEHIND_S:
            raise BrokerUnavailable(
                f"the oldest due job has waited {behind:.0f} s: check that a worker runs, and that the workers are not "
                "busy with other jobs (`mnema jobs list`)"
            )

    async def _check_pauses(self) -> None:
        if paused := await self._fetch_rows("SELECT kind, tenants FROM paused_jobs()"):
            kinds = ", ".join(f"{row['kind']} ({row['tenants']})" for row in paused)
            raise BrokerUnavailable(
                f"somebody paused jobs, by kind (`*`: every kind) and number of tenants: {kinds}; "
                "to go on, run `mnema jobs resume KIND --tenant NAME`"
            )

    async def _check_database(self) -> None:
        if (await self._fetch_rows(_IS_READ_ONLY))[0]["read_only"]:
            raise DatabaseReadOnly(READ_ONLY)

    async def _check_clusters(self) -> None:
        """Check each cluster: while one is away, the others serve their tenants."""
        assert isinstance(self._uow, ClusterUnitOfWork)
        found = await self._uow.homes.ask_each(self._find_fault)
        faults = [f"{name}: {fault}" for name, fault in found.items() if fault != "ok"]
        faults += await self._uow.homes.list_misnamed()
        if any(self._uow.homes.bounds.values()):
            faults += [
                f"{name}: its database takes {room}, its max_bytes: move tenants, or raise the bound"
                for name, room in (await self._uow.homes.list_rooms()).items()
                if room is not None and room.is_short
            ]
        if faults:
            raise DatabaseUnavailable("; ".join(map(str, faults)))

    async def _check_moves(self) -> None:
        """Name the moves that stopped, and the copies that owe erasures. Workers with the operators' URLs do both."""
        assert isinstance(self._uow, ClusterUnitOfWork)
        async with _database_time_limit(self._patience_s):
            stopped = await self._uow.homes.list_stopped_moves()
            owed = await self._uow.homes.list_owed()
        if stopped:
            more = f" (and {len(stopped) - 1} more)" if len(stopped) > 1 else ""
            raise TenantMoving(stopped[0].advice + more)
        if owed:
            more = f" (and {len(owed) - 1} more)" if len(owed) > 1 else ""
            raise ErasureOwed(owed[0].advice + more)

    async def _check_placements(self) -> str | None:
        """Name the clusters that the file misses, and the tenants without a home."""
        assert isinstance(self._uow, ClusterUnitOfWork)
        async with _database_time_limit(self._patience_s):
            return "; ".join(await list_misplaced(self._uow.homes)) or None

    async def _find_fault(self, cluster: UnitOfWork) -> str:
        [row] = await cluster.call_definer(_IS_READ_ONLY)
        if row["read_only"]:
            return "it takes no writes"
        refuse_privileged((await cluster.call_definer(ROLE))[0])
        await require_schema(cluster)
        await require_space(cluster, self._embedder.model, self._embedder.dimension)
        return "ok"

    async def _check_locks(self) -> None:
        """Check that nothing waits for long for a whole table, which a migration or a person may have locked."""
        if locked := await self._fetch_rows(_LOCKED_TABLES, LOCKED_S):
            names = ", ".join(f"{row['name']} ({row['seconds']:.0f} s)" for row in locked)
            raise DatabaseUnavailable(f"requests wait for tables that another session has locked: {names}")

    async def _check_clock(self) -> None:
        """Check that the clocks of this process and of the database agree: what is newer is told by them."""
        assert self._clock is not None
        try:
            async with _database_time_limit(self._patience_s):
                await self._clock.trusted_time()
        except ClockSkew as error:
            raise ClockSkew(f"{error.code}: {error.detail}") from error

    async def _check_replicas(self) -> None:
        """Check that every replica may answer reads now; the primary answers for those that may not."""
        assert self._replicas is not None
        try:
            async with asyncio.timeout(self._patience_s):
                faults = await self._replicas.list_faults()
        except TimeoutError as error:
            raise DatabaseUnavailable("the replicas do not answer; the primary answers all reads") from error
        if faults:
            told = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
            raise DatabaseUnavailable(f"{told}; others or the primary answer its reads")

    async def _check_migrations(self) -> None:
        async with _database_time_limit(self._patience_s):
            await require_schema(self._uow)

    async def _check_role(self) -> None:
        """Check the role's privileges each time, because they can change while connections are open."""
        [role] = await self._fetch_rows(ROLE)
        refuse_privileged(role)

    async def _check_space(self) -> None:
        async with _database_time_limit(self._patience_s):
            await require_space(self._uow, self._embedder.model, self._embedder.dimension)

    async def _check_secret(self) -> None:
        assert self._require_secret is not None
        async with _database_time_limit(self._patience_s):
            await self._require_secret()

    async def _fetch_rows(self, statement: str, *args: float) -> Sequence[Row]:
        async with _database_time_limit(self._patience_s):
            return await self._uow.call_definer(statement, *args)

    async def _check_embedder(self) -> None:
        async with _answer_limit(self._patience_s, EmbedderUnavailable, "The embedding model", EMBEDDER):
            vector = await self._embedder.embed_query("ready")
        if len(vector) != self._embedder.dimension:
            raise EmbedderUnavailable(
                f"the model's vectors have {len(vector)} dimensions, not {self._embedder.dimension}:"
                " check MNEMA_EMBEDDING_DIMENSION"
            )

    async def _check_reranker(self) -> None:
        async with _answer_limit(self._patience_s, RerankerUnavailable, "The reranker", RERANKER):
            await self._reranker.check_health()

    async def _check_chat_model(self) -> str:
        if not self._chat.is_available:
            return NO_CHAT_MODEL
        async with _answer_limit(self._patience_s, ChatModelUnavailable, "The chat model", LLM):
            await self._chat.check_health()
        return "ok"

    async def _check_blobs(self) -> None:
        assert self._blobs is not None
        async with _answer_limit(self._patience_s, BlobStoreUnavailable, "The store of blobs", BLOBS):
            await self._blobs.check_health()


@asynccontextmanager
async def _answer_limit(patience_s: float, failure: type[MnemaError], what: str, advice: str) -> AsyncIterator[None]:
    """Add the advice to a failure of the block. Raise one too if it takes longer than `patience_s` seconds."""
    try:
        async with asyncio.timeout(patience_s):
            yield
    except failure as error:
        raise failure(f"{error.detail} {advice}") from error
    except TimeoutError as error:
        raise failure(f"{what} did not answer. {advice}") from error


@asynccontextmanager
async def _database_time_limit(patience_s: float) -> AsyncIterator[None]:
    """Raise DatabaseUnavailable if the block takes longer than `patience_s` seconds."""
    try:
        async with asyncio.timeout(patience_s):
            yield
    except (DatabaseUnavailable, TimeoutError) as error:
        raise DatabaseUnavailable(DATABASE) from error


def _verdict_texts(verdicts: Mapping[str, str | BaseException]) -> dict[str, str]:
    """Return the verdicts as texts. Raise an unexpected error, unless the schema is another version's.

    A check may then query tables or functions that do not exist.
    """
    migrations = verdicts["migrations"]
    other_schema = isinstance(migrations, str) and migrations != "ok"
    texts = {}
    for name, verdict in verdicts.items():
        if isinstance(verdict, BaseException) and not (other_schema and isinstance(verdict, Exception)):
            raise verdict
        texts[name] = verdict if isinstance(verdict, str) else "cannot be checked with this schema"
    return texts


async def _run_check(check: Check) -> str:
    try:
        return await check() or "ok"
    except MnemaError as error:
        return error.detail
