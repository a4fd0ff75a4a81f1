"""Reception of a body into a file, for routes whose body may be too large for memory."""

import tempfile
from typing import IO, Final

from fastapi import Request

from app.domain.errors import BodyTooLarge
from app.domain.outages import SpoolUnavailable

IN_MEMORY: Final = 8 << 20
"""The bytes of a body that are kept in memory; a larger body is on disk."""


async def spool_body(request: Request, limit: int) -> IO[bytes]:
    """Read the whole body into a file. Raise BodyTooLarge beyond `limit` bytes, SpoolUnavailable if the disk is full.

    The whole body is read before the answer begins. Otherwise a client that sends and never reads would block the
    connection.
    """
    spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - the caller closes it
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge(f"at most {limit} bytes")
            spool.write(chunk)
    except OSError as error:
        spool.close()
        raise SpoolUnavailable() from error
    except BaseException:
        spool.close()
        raise
    spool.seek(0)
    return spool
