"""Bodies and answers in MessagePack, with the same schema as in JSON. MessagePack carries bytes without base64."""

import base64
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import orjson
import ormsgpack
from fastapi import Request, Response

from app.api.transport.direct import Decoder
from app.api.transport.parameters import StrictRoute

MSGPACK = "application/msgpack"
JSON = "application/json"


def unpack_msgpack(body: bytes) -> Any:
    """Return the value of a MessagePack body. Raise JSONDecodeError if it is not MessagePack."""
    try:
        return ormsgpack.unpackb(body)
    except ValueError as error:
        raise json.JSONDecodeError("not MessagePack", "", 0) from error


class MsgpackRoute(StrictRoute):
    """A route that takes JSON or MessagePack and validates both in the same way."""

    decoders: ClassVar[Mapping[str, Decoder]] = {MSGPACK: unpack_msgpack}


def render_answer(request: Request, content: Any) -> Response:
    """Return `content`, which may hold bytes, as MessagePack if the Accept header asks for it, else as JSON.

    In JSON, bytes are base64 text.
    """
    if MSGPACK in request.headers.get("accept", ""):
        return Response(ormsgpack.packb(content), media_type=MSGPACK)
    return Response(orjson.dumps(content, default=_encode_base64), media_type=JSON)


def _encode_base64(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


def document_msgpack(document: dict[str, Any]) -> None:
    """Add MessagePack to the bodies and answers of the saver's operations in an OpenAPI document."""
    for path, methods in document["paths"].items():
        for operation in methods.values() if path.startswith("/saver/") else ():
            for part in (operation["requestBody"], operation["responses"].get("200", {})):
                if JSON in part.get("content", {}):
                    part["content"][MSGPACK] = {"schema": part["content"][JSON]["schema"]}
