"""Addresses of blobs: the store, the tenant and the id, such as `s3:<tenant id>/<blob id>`."""

import re
from typing import Final
from uuid import UUID

_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_URI: Final = re.compile(f"([a-z0-9]+):({_UUID})/({_UUID})")


def format_blob_uri(scheme: str, tenant_id: UUID, blob_id: UUID) -> str:
    """Return the address of a blob. `scheme` names the store that has it."""
    return f"{scheme}:{tenant_id}/{blob_id}"


def blob_scheme(uri: str) -> str | None:
    """Return the name of the store of a blob, or None if `uri` is no address of a blob."""
    found = _URI.fullmatch(uri)
    return found[1] if found else None


def blob_of_tenant(uri: str, scheme: str, tenant_id: UUID) -> UUID | None:
    """Return the id of a blob; None if the address is not one of this store and this tenant."""
    found = _URI.fullmatch(uri)
    return UUID(found[3]) if found and found[1] == scheme and UUID(found[2]) == tenant_id else None
