"""Routes of the files of sources: list, upload, download and delete them."""

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from mnema_wire import sources as wire
from mnema_wire.fields import Limit
from starlette.types import Receive, Scope, Send

from app.api import links
from app.api.deps import Administrator, App, Reader, Writer
from app.api.errors import key_errors
from app.api.routes.sources.sources import SOURCE, Cursor
from app.api.schemas.sources.sources import index_job_body
from app.api.transport.parameters import StrictRoute
from app.api.transport.spooling import spool_body
from app.domain.errors import BodyTooLarge
from app.domain.paging import decode_text, encode_place
from app.domain.sources.folder import TreeEntry
from app.domain.sources.paths import MAX_PATH_BYTES
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source import FileState, SourceFile
from app.usecases.sources.uploads import UploadOutcome

router = APIRouter(prefix="/sources", tags=["sources"], route_class=StrictRoute)
BINARY: Final = "application/octet-stream"
FILES: Final = f"{SOURCE}/files"
FILE: Final = f"{FILES}/{{file_id:uuid}}"
UPLOADS: Final = re.compile(r"/sources/[0-9a-fA-F-]{36}/files")
MOST_BYTES: Final = 1 << 30
"""The largest upload in bytes that any value of `sources.max_file_bytes` can allow."""
PIECE: Final = 1 << 18
_CONTENT: Final = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
_BODY: Final[dict[str, Any]] = {"requestBody": {"required": False, "content": _CONTENT}}
FilePath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=MAX_PATH_BYTES,
        description="path below the root of the source; its extension tells the kind of document",
        examples=["guides/setup.md"],
    ),
]


def source_file_body(file: SourceFile) -> wire.SourceFile:
    """Return the body for a domain object."""
    names = (
        "id",
        "source_id",
        "path",
        "size",
        "state",
        "reason",
        "encoding",
        "characters",
        "modified_at",
        "indexed_at",
    )
    return wire.SourceFile(
        **{name: getattr(file, name) for name in names},
        kind=file.filetype,
        hash=file.hash.hex() if file.hash else None,
        message=_describe_rejection(file.reason, file.detail),
        chunks=file.chunk_count,
        uploaded=file.hosted_uri is not None,
    )


def uploaded_file_body(outcome: UploadOutcome) -> wire.UploadedFile:
    """Return the body for a domain object."""
    job = index_job_body(outcome.index_job) if outcome.index_job else None
    return wire.UploadedFile(file=source_file_body(outcome.file), action=outcome.action, index_job=job)


def tree_entry_body(entry: TreeEntry) -> wire.TreeEntry:
    """Return the body for a domain object."""
    stored = entry.stored
    problem = entry.problem
    reason, message = (problem.reason.value, problem.message) if problem else (None, None)
    if stored is not None and stored.reason is not None:
        reason = stored.reason
        message = _describe_rejection(stored.reason, stored.detail)
    return wire.TreeEntry(
        **{name: getattr(entry, name) for name in ("name", "path", "kind", "size", "modified_at", "state")},
        chunks=stored.chunk_count if stored else None,
        file_id=stored.id if stored else None,
        reason=reason,
        message=message,
    )


def _describe_rejection(reason: str | None, detail: str | None) -> str | None:
    """Return why a file is rejected as a sentence. A reason of a newer version has its detail alone."""
    if reason is None:
        return None
    try:
        return Rejection(RejectionReason(reason), detail or "").message
    except ValueError:
        return detail


class Download(StreamingResponse):
    """A file that browsers save, and neither show nor run. `held` is closed when the client has read the file.

    The file is sent in pieces, because the server would keep one large body in memory and count it as already sent.
    """

    def __init__(self, content: bytes, path: str, held: AsyncExitStack) -> None:
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rsplit('/', 1)[-1], safe='')}",
            "Content-Security-Policy": "sandbox",
            "Content-Length": str(len(content)),
        }
        pieces = (content[at : at + PIECE] for at in range(0, len(content), PIECE))
        super().__init__(iterate_pieces(pieces), headers=headers, media_type=BINARY)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        async with self._held:
            await super().__call__(scope, receive, send)


async def iterate_pieces(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces as an async iterator, because Starlette would read a plain iterator in a thread."""
    for piece in pieces:
        yield piece


@router.get(f"{SOURCE}/tree", responses={200: {"links": links.TREE}, **key_errors(404, 409)})
async def tree(
    app: App,
    principal: Reader,
    source_id: UUID,
    path: Annotated[
        str, Query(max_length=MAX_PATH_BYTES, description="a folder below the root of the source; absent: the root")
    ] = "",
    limit: Annotated[Limit, Query()] = 200,
    cursor: Cursor = None,
) -> wire.TreePage:
    """List a folder of a source by name, each file with its state. No content is read."""
    found = await app.sources.browse.list_entries(principal, source_id, path, decode_text(cursor) or "", limit)
    next_cursor = encode_place((found.next_after,)) if found.next_after is not None else None
    return wire.TreePage(items=[tree_entry_body(entry) for entry in found.entries], next_cursor=next_cursor)


@router.get(FILES, responses={200: {"links": links.SOURCE_FILES}, **key_errors(404)})
async def list_files(
    app: App,
    principal: Reader,
    source_id: UUID,
    state: Annotated[FileState | None, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> wire.SourceFilePage:
    """List the files of a source by path. A rejected one says why."""
    found = await app.sources.files.list_files(principal, source_id, state, cursor, limit)
    return wire.SourceFilePage(items=[source_file_body(file) for file in found.items], next_cursor=found.next_cursor)


@router.post(
    FILES,
    status_code=202,
    openapi_extra=_BODY,
    responses={
        202: {"links": links.UPLOADED_FILE},
        200: {"description": "The source has this content already"},
        **key_errors(404, 409, 413, 415),
    },
)
async def upload_file(
    app: App, principal: Writer, source_id: UUID, path: FilePath, request: Request, response: Response
) -> wire.UploadedFile:
    """Upload a file: the body is its content, with any Content-Type. An index job reads it afterwards.

    A file with the same path is replaced. The same content again changes nothing.
    """
    limit = app.parts.policies.defaults.sources.max_file_bytes
    if int(request.headers.get("content-length", "0")) > limit:
        raise BodyTooLarge(f"at most {limit} bytes a file")
    await app.sources.files.check_upload(principal, source_id, path)
    with await spool_body(request, limit) as spool:
        outcome = await app.sources.files.upload_file(principal, source_id, path, spool.read())
    response.status_code = 200 if outcome.action == "unchanged" else 202
    return uploaded_file_body(outcome)


@router.get(FILE, responses={200: {"links": links.SOURCE_FILE}, **key_errors(404)})
async def get_file(app: App, principal: Reader, source_id: UUID, file_id: UUID) -> wire.SourceFile:
    """Return a file of a source."""
    return source_file_body(await app.sources.files.get_file(principal, source_id, file_id))


@router.delete(FILE, status_code=204, responses={204: {"description": "Deleted"}, **key_errors(404, 409)})
async def delete_file(app: App, principal: Administrator, source_id: UUID, file_id: UUID) -> None:
    """Delete an uploaded file with its chunks."""
    await app.sources.files.delete_file(principal, source_id, file_id)


@router.get(
    f"{FILE}/content",
    response_class=Response,
    responses={200: {"description": "The file as it was uploaded", "content": _CONTENT}, **key_errors(404)},
)
async def download_file(app: App, principal: Reader, source_id: UUID, file_id: UUID) -> Response:
    """Download a file as it was uploaded. 404 for the files of a folder, because only uploads are stored."""
    async with AsyncExitStack() as stack:
        file, content = await stack.enter_async_context(app.sources.files.open_content(principal, source_id, file_id))
        return Download(content, file.path, stack.pop_all())
    raise AssertionError("unreachable")
