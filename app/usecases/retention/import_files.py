"""Contents that an import stores as blobs: payloads of artifacts, and uploaded files."""

import base64
import json
from collections.abc import Sequence
from typing import Any, Final, Literal
from uuid import UUID

from app.domain.errors import BodyTooLarge, IncompleteFile, InvalidInput, MnemaError, RecordMissing, ValueRefused
from app.domain.principal import Principal
from app.domain.retention.portable import PortableRecord
from app.domain.sources.source import hash_content
from app.domain.turn_memory.artifacts import ArtifactKind
from app.ports import BlobStore
from app.storage.identity import new_id
from app.storage.retention.imports import ImportStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.bulk import line_error
from app.usecases.offload import offload_if_large

WITH_BLOB: Final = frozenset({ArtifactKind.turn_log, ArtifactKind.bucket})
"""The kinds of artifacts whose payload is in a blob."""


class ImportFiles:
    """The part of an import that stores blobs. A sweep deletes a blob that no row refers to in the end."""

    def __init__(self, uow: UnitOfWork, storage: ImportStorage, blobs: BlobStore, max_file_bytes: int) -> None:
        self._uow = uow
        self._storage = storage
        self._blobs = blobs
        self._max_file_bytes = max_file_bytes

    async def store_payloads(
        self, principal: Principal, user_id: str, rows: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return rows of artifacts with the addresses of their payloads; store those of artifacts that are new.

        Raise InvalidInput for a payload that is missing, or that its kind does not have.
        """
        known = await self._storage.find_artifacts(principal, [UUID(row["id"]) for row in rows])
        return [
            row | {"hosted_uri": None if row["id"] in known else await self._store_payload(principal, user_id, row)}
            for row in rows
        ]

    async def _store_payload(self, principal: Principal, user_id: str, row: dict[str, Any]) -> str | None:
        payload = row["payload"]
        if (row["artifact"] in WITH_BLOB) != (payload is not None):
            raise InvalidInput("payload: logs of turns and buckets have one, other artifacts have none")
        if payload is None:
            return None
        return await self._store_blob(principal, user_id, json.dumps(payload, ensure_ascii=False).encode())

    async def _store_blob(self, principal: Principal, user_id: str, content: bytes) -> str:
        uri = self._blobs.blob_uri(principal.tenant_id, new_id())
        await self._storage.enter_blob(principal, user_id, uri)
        await self._blobs.put_blob(principal, uri, content)
        return uri

    async def store_content(
        self, principal: Principal, user_id: str, parts: Sequence[PortableRecord]
    ) -> Literal["imported", "unchanged"] | MnemaError:
        """Store an uploaded file of consecutive parts, unless its content is there. Return what was done."""
        try:
            return await self._store_parts(principal, user_id, parts)
        except Exception as error:
            return line_error(error)

    async def _store_parts(
        self, principal: Principal, user_id: str, parts: Sequence[PortableRecord]
    ) -> Literal["imported", "unchanged"]:
        file_id = UUID(parts[0].id)
        async with self._uow.read(principal) as tx:
            found = await self._storage.find_upload(tx, principal, user_id, file_id)
        if found is None:
            raise RecordMissing()
        if not found.waits:
            return "unchanged"
        if [part.fields["part"] for part in parts] != list(range(parts[0].fields["parts"])):
            raise IncompleteFile()
        content = b"".join(base64.b64decode(part.fields["data"]) for part in parts)
        if len(content) > self._max_file_bytes:
            raise BodyTooLarge(f"at most {self._max_file_bytes} bytes a file")
        if found.hash is not None and await offload_if_large(len(content), hash_content, content) != found.hash:
            raise ValueRefused("the content is not that of the file: its hash differs")
        uri = await self._store_blob(principal, user_id, content)
        async with self._uow.write(principal) as tx:
            await self._storage.lock_user(tx, principal, user_id)
            await self._storage.attach_content(tx, principal, user_id, file_id, uri)
        return "imported"
