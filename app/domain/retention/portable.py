"""Records of a user's export, and the new ids that an import may give them."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

_OURS: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""An id that Mnema gives. An id of a caller that looks like it is taken for Mnema's."""
_NOT_OURS: Final = frozenset(
    {
        "text",
        "steps_text",
        "quote",
        "metadata",
        "tags",
        "value",
        "user_id",
        "thread_id",
        "agent_id",
        "run_id",
        "actor_id",
        "key",
        "keys",
        "batch",
        "undoes",
    }
)
"""Names of fields that hold only words and ids of the caller, or ids of what is not imported."""


@dataclass(frozen=True, slots=True)
class PortableRecord:
    """A record of an export with its fields as JSON.

    `ids`: the fields that hold ids of records; `refs`: those in which some may stand. `is_left_out`: the kind
    is not imported, and there are no fields.
    """

    kind: str
    fields: Mapping[str, Any]
    ids: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    is_left_out: bool = False

    @property
    def id(self) -> str:
        """The id; that of a saver's record is made of its key."""
        return str(self.fields.get("id"))

    @property
    def own_id(self) -> str | None:
        """The id; None if the record's key is made of names."""
        return self.fields["id"] if isinstance(self.fields.get("id"), str) else None

    @property
    def named_user(self) -> str | None:
        """The user whom the record names; None if it names nobody."""
        user: str | None = self.fields.get("user_id")
        return user

    def with_new_ids(self, tenant_id: UUID) -> "PortableRecord":
        """Return the record with new ids. A record gets the same one each time in the same tenant."""
        named = {name: str(renew_id(tenant_id, UUID(self.fields[name]))) for name in self.ids if self.fields.get(name)}
        found = {name: _renew_within(tenant_id, self.fields.get(name)) for name in self.refs}
        return replace(self, fields={**self.fields, **named, **found})


def renew_id(tenant_id: UUID, old: UUID) -> UUID:
    """Return the new id of a record in a tenant.

    The first half of the old one stays: it holds the time, by which records are ordered. The second half is a hash.
    """
    digest = hashlib.sha256(tenant_id.bytes + old.bytes).digest()
    return UUID(bytes=old.bytes[:8] + bytes([0x80 | digest[0] & 0x3F]) + digest[1:8])


def _renew_within(tenant_id: UUID, value: Any) -> Any:
    if isinstance(value, str):
        return str(renew_id(tenant_id, UUID(value))) if _OURS.fullmatch(value) else value
    if isinstance(value, list):
        return [_renew_within(tenant_id, each) for each in value]
    if isinstance(value, dict):
        return {key: each if key in _NOT_OURS else _renew_within(tenant_id, each) for key, each in value.items()}
    return value
