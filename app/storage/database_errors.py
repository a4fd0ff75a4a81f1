"""Our errors for those of the database driver."""

import asyncpg
import structlog

from app.domain.errors import (
    DuplicateText,
    ErasedText,
    FactMemory,
    IdempotencyKeyUsed,
    MnemaError,
    NotFound,
    StateTooLarge,
    ValueRefused,
    VersionConflict,
    WrongState,
)
from app.domain.outages import (
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DataLocked,
    DirectoryElsewhere,
    FactsUnread,
    TenantMoving,
    WriteContention,
)
from app.storage.engine import REFUSED, UNREACHABLE
from app.storage.pooling import LOST, LOST_STATEMENTS

log = structlog.get_logger(__name__)
_ERROR_BY_STATE: dict[str, type[MnemaError]] = {
    "MN404": NotFound,
    "MN409": WrongState,
    "MN410": ErasedText,
    "MN412": VersionConflict,
    "MN421": TenantMoving,
    "MN422": DirectoryElsewhere,
    "MN423": FactMemory,
    "MN413": StateTooLarge,
    "MN425": IdempotencyKeyUsed,
    "MN426": FactsUnread,
    "23503": WriteContention,  # the user was erased while the memory was written
    "23505": DuplicateText,
    "40P01": WriteContention,
    "40001": WriteContention,
    "55P03": DataLocked,
    "25006": DatabaseReadOnly,
    "25P03": DatabaseUnavailable,  # a transaction that was idle for too long
    "25P04": DatabaseUnavailable,  # or took too long
    "53100": DatabaseFull,
    "58030": DatabaseUnavailable,  # an error of its disk
}
_TRANSIENT_CLASSES = ("53", "57")
"""SQLSTATE classes of temporary refusals: PostgreSQL lacks a resource, or an operator intervenes."""
_VALUE_CLASSES = ("22", "54")
"""SQLSTATE classes of values that PostgreSQL cannot read, and of those beyond its limits."""
_TOO_COMPLEX = "tsquery stack too small"
"""An error of PostgreSQL's parsers that has no class of its own."""


def translate_error(error: BaseException) -> MnemaError | None:
    """Return our error for the driver's, or None if the error is a defect of ours."""
    if isinstance(error, asyncpg.ForeignKeyViolationError) and "tenant_id_fkey" in (error.constraint_name or ""):
        return NotFound("no such tenant")
    state = (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""
    if ours := _ERROR_BY_STATE.get(state):
        return ours() if ours is not WrongState else WrongState(str(error))
    if state.startswith(_VALUE_CLASSES) or (state == "XX000" and _TOO_COMPLEX in str(error)):
        log.warning("value_refused", sqlstate=state, error=type(error).__name__)  # the value may be a person's words
        return ValueRefused()
    if state.startswith(_TRANSIENT_CLASSES):
        return DatabaseUnavailable("the database refuses this for now; try again")
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return DatabaseUnavailable("the database has a new schema; try again")
    if isinstance(error, LOST):
        return DatabaseUnavailable(LOST_STATEMENTS)
    if isinstance(error, REFUSED):
        return DatabaseUnavailable("the database refuses this login")
    if isinstance(error, asyncpg.InterfaceError) and not any(word in str(error) for word in ("clos", "released")):
        return None  # a wrong call of ours; only a lost connection is the database's fault
    return DatabaseUnavailable() if isinstance(error, UNREACHABLE) else None
