"""Keep the identity of the schema in the database while migrations run: check the one before, store the one after."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, text

from app.domain.errors import SchemaMismatch
from app.storage.operations.schema import (
    OBJECTS,
    REVISION,
    expected_fingerprint,
    head_revision,
    require_same_schema,
)
from migrations.frozen import FROZEN, Frozen

_EXISTS = "SELECT to_regclass(:name) IS NOT NULL"
_STORE = """
INSERT INTO schema_fingerprint (revision, fingerprint, server, objects)
SELECT :revision, :fingerprint, current_setting('server_version_num')::int / 10000, jsonb_object_agg(k.kind, k.named)
FROM (SELECT o.kind, jsonb_object_agg(o.name, o.digest) AS named FROM ({objects}) o GROUP BY o.kind) k
"""


class Identity(NamedTuple):
    """The identity that the database has. Both are None in an empty one."""

    revision: str | None
    fingerprint: str | None


def read_identity(connection: Connection) -> Identity:
    """Return the revision and the fingerprint of the database."""
    return Identity(
        _read_value(connection, "alembic_version", REVISION),
        _read_value(connection, "schema_fingerprint", "SELECT fingerprint FROM schema_fingerprint"),
    )


def keep_identity(connection: Connection, before: Identity, frozen: Mapping[str, Frozen] = FROZEN) -> None:
    """Store the identity that the migrations have made. Raise SchemaMismatch if they do not fit what was there before.

    The caller's transaction is rolled back then, so nothing was changed.
    """
    head = head_revision()
    after = read_identity(connection)
    if after.revision == before.revision:
        if after.revision == head:
            require_same_schema(head, before.fingerprint, expected_fingerprint())
        return
    known = {revision: entry.fingerprint for revision, entry in frozen.items()} | {head: expected_fingerprint()}
    if after.revision == head and before.revision is not None:
        if before.revision not in known:
            raise SchemaMismatch(f"no release has published the revision {before.revision} of this database")
        require_same_schema(before.revision, before.fingerprint, known[before.revision])
    if not _exists(connection, "schema_fingerprint"):
        return
    connection.execute(text("DELETE FROM schema_fingerprint"))
    if after.revision in known:
        values = {"revision": after.revision, "fingerprint": known[after.revision]}
        connection.execute(text(_STORE.format(objects=OBJECTS)), values)


def _exists(connection: Connection, table: str) -> bool:
    return bool(connection.execute(text(_EXISTS), {"name": table}).scalar_one())


def _read_value(connection: Connection, table: str, statement: str) -> str | None:
    return connection.execute(text(statement)).scalar_one_or_none() if _exists(connection, table) else None
