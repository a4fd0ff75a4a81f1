"""The identity of the schema: a revision's number, and the fingerprint of the schema that the revision makes.

A number alone says little: the same number has stood for many schemas. The fingerprint is the digest of
`migrations/schema`, which a test holds equal to what the migrations make. Every migration stores it in the database
(`migrations/env.py`), with a digest of each object that it left there.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import asyncpg

from app.domain.errors import ConfigError, SchemaMismatch
from app.storage.engine import UNPREPARED
from app.storage.statements import load_statements
from app.storage.uow import Row, UnitOfWork

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "migrations" / "schema"
VERSIONS = ROOT / "migrations" / "versions"
SHOWN = 12
"""The characters of a fingerprint that a message shows."""
NAMED = 8
"""The objects that a message names."""

REVISION = "SELECT version_num FROM alembic_version"
_STATEMENTS = load_statements("operations/schema.sql")
OBJECTS = _STATEMENTS["objects"]
"""A query for the kind, the name and the digest of each object of the schema."""
CHANGED = _STATEMENTS["changed"].format(objects=OBJECTS)
"""A query for the objects that are not as the last migration left them."""
_UNREADABLE = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InsufficientPrivilegeError)


def digest_files(folder: Path) -> str:
    """Return the SHA-256 of all files below the folder: of their paths in it and their contents."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\n{len(text)}\n".encode() + text)
    return digest.hexdigest()


@cache
def expected_fingerprint() -> str:
    """Return the fingerprint of the schema that this code makes and needs. Raise ConfigError if it is not installed."""
    if not SCHEMA.is_dir():
        raise ConfigError(f"the folder {SCHEMA} is missing: install Mnema from a whole checkout")
    return digest_files(SCHEMA)


@cache
def head_revision() -> str:
    """Return the newest revision that this code knows.

    The names of the files give it: Alembic imports SQLAlchemy, which takes a quarter of a second at every start.
    """
    return max((path.name.partition("_")[0] for path in VERSIONS.glob("[0-9]*_*.py")), default="none")


def require_same_schema(revision: str, stored: str | None, expected: str) -> None:
    """Raise SchemaMismatch if a database at this revision has another fingerprint than the revision makes, or none."""
    if stored == expected:
        return
    has = f"the fingerprint {stored[:SHOWN]}" if stored else "no fingerprint"
    raise SchemaMismatch(
        f"the schema of this database is of another version of Mnema: it is at revision {revision} with {has}, but "
        f"this version makes revision {revision} with {expected[:SHOWN]}. No migration leads from one to the other. "
        "Run the version that made it, or move its data into a new database: docs/operations.md, A database of "
        "another version"
    )


def _require_objects(missing: Sequence[Row]) -> None:
    if missing:
        names = name_some([row["object"] for row in missing])
        raise SchemaMismatch(
            f"the schema of this database is not whole: {names} missing. Somebody dropped them, or a restore left them "
            "out: restore a whole dump"
        )


def name_some(objects: list[str]) -> str:
    """Return the first NAMED objects, and how many more there are."""
    more = len(objects) - NAMED
    return ", ".join(objects[:NAMED]) + (f" and {more} more" if more > 0 else "")


async def require_schema(uow: UnitOfWork) -> None:
    """Raise ConfigError unless the database has the schema of this code: its revision, its fingerprint, its objects."""
    try:
        rows = await uow.call_definer(REVISION)
    except _UNREADABLE as error:
        raise ConfigError(UNPREPARED) from error
    current = rows[0]["version_num"] if rows else "none"
    if current != head_revision():
        raise ConfigError(f"schema is at {current}, this server needs {head_revision()}: run `mnema migrate`")
    try:
        stored = await uow.call_definer(_STATEMENTS["stored"])
    except _UNREADABLE:
        stored = []
    require_same_schema(current, stored[0]["fingerprint"] if stored else None, expected_fingerprint())
    _require_objects(await uow.call_definer(_STATEMENTS["missing"]))


async def require_whole_schema(connection: asyncpg.Connection) -> None:
    """Raise SchemaMismatch if objects of the migrated database are missing."""
    _require_objects(await connection.fetch(_STATEMENTS["missing"]))


async def list_changed_objects(uow: UnitOfWork) -> list[str]:
    """Return the objects that somebody changed after the last migration, by kind and name."""
    return [row["object"] for row in await uow.call_definer(CHANGED)]
