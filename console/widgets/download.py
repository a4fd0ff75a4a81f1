"""A file that is made while the browser loads it, so that its size has no limit and the server keeps nothing of it."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

from nicegui import app as pages_app
from nicegui import ui
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from console.context import PageContext, SessionOver
from console.session import SESSION, Session

SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
LONGEST_NAME = 60
LONGEST_SUFFIX = 10
PIECE_BYTES = 1 << 18


class FileBroken(Exception):
    """The rest of a file cannot be made."""


class BreakableStream(StreamingResponse):
    """A stream that ends without its last chunk after FileBroken: the browser then says that the download failed."""

    async def stream_response(self, send: Send) -> None:
        """Send the chunks."""
        try:
            await super().stream_response(send)
        except FileBroken:
            return


def offer_download(page: PageContext, name: str, chunks: AsyncGenerator[bytes], media_type: str) -> None:
    """Let the browser download a file. Its address works once, in the page's session, while the page is open.

    `chunks` may raise FileBroken. `name`: through `safe_name` if it holds a text of a caller.
    """
    path = f"/download/{secrets.token_urlsafe(32)}"
    waiting = [_watch_session(page, chunks)]

    async def send_file(request: Request) -> Response:
        session: Session | None = request.scope[SESSION]
        if not waiting or session is None or session.id != page.opened.session.id:
            raise HTTPException(404)
        pages_app.remove_route(path)
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return BreakableStream(waiting.pop(), media_type=media_type, headers=headers)

    pages_app.get(path, include_in_schema=False, response_model=None)(send_file)
    page.client.on_delete(lambda: pages_app.remove_route(path))
    ui.download.from_url(path, name)


async def _watch_session(page: PageContext, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the chunks while the session lasts. Raise FileBroken after its end, as of a revoked key."""
    async with aclosing(chunks):
        async for chunk in chunks:
            try:
                page.check_session()
            except SessionOver as error:
                raise FileBroken from error
            yield chunk


def safe_name(text: str) -> str:
    """Return a text of a caller as a part of a file's name: letters, digits, `-` and `_` of ASCII."""
    return "".join(char if char in SAFE else "_" for char in text[:LONGEST_NAME])


def safe_file_name(path: str) -> str:
    """Return the name of a file at a path of callers, with its suffix if that is safe."""
    stem, dot, suffix = path.rsplit("/", 1)[-1].rpartition(".")
    if not stem or not suffix or len(suffix) > LONGEST_SUFFIX or not set(suffix) <= SAFE:
        stem, dot, suffix = stem + dot + suffix, "", ""
    return (safe_name(stem) or "file") + dot + suffix


async def send_whole(content: bytes) -> AsyncGenerator[bytes]:
    """Yield a file's content, which is in memory, in pieces."""
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]
