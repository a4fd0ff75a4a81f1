"""The faults of real upstreams. Each meets one request."""

import json
from enum import StrEnum
from typing import Any

from starlette.responses import Response


class Fault(StrEnum):
    """A fault that a request meets.

    Those of a stream do nothing to an answer that is not streamed, except CUT, HANG_LATER, HUGE and DRIP.
    """

    NONE = "an answer"
    REFUSED = "400"
    UNAUTHORISED = "401"
    NO_SUCH_MODEL = "404"
    RATE_LIMITED = "429, Retry-After: 7, retry-after-ms: 6500"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    ERROR_IN_STREAM = "an event with an error within the stream, then its end"
    CUT = "a connection that ends within the answer"
    NO_DONE = "a stream without [DONE]"
    NO_FINISH = "a stream without finish_reason, with [DONE]"
    BYTES = "a stream of one byte a chunk, with a pause within each character that has more bytes"
    COMMENTS = "comments between the events"
    EVENT_LINES = "event:, id: and retry: lines in the events"
    CRLF = "lines that end with CRLF"
    NO_SPACE = "no space after data:"
    HANG = "no byte of an answer"
    HANG_LATER = "nothing after the first chunk"
    HUGE = "20 MB"
    HTML = "a page of HTML with status 200"
    JSON_AS_TEXT = "an answer of type text/plain"
    GARBAGE = "200 that is not JSON, said to be"
    FOUND = "302 to another host"
    TEMPORARY_REDIRECT = "307 to another host"
    GZIP = "an answer that is packed though nobody asked"
    NOT_STREAMED = "a plain answer to a request for a stream"
    STREAMED = "a stream for a request without one"
    DRIP = "one byte a chunk, each after a pause"


_STATUSES = {
    Fault.REFUSED: (400, "This model does not know the role 'critic'.", "invalid_request_error", "messages", None),
    Fault.UNAUTHORISED: (401, "Incorrect API key provided.", "invalid_request_error", None, "invalid_api_key"),
    Fault.NO_SUCH_MODEL: (404, "The model does not exist.", "invalid_request_error", "model", "model_not_found"),
    Fault.RATE_LIMITED: (429, "Rate limit reached.", "requests", None, "rate_limit_exceeded"),
    Fault.SERVER_ERROR: (500, "The server had an error – ask again.", "server_error", None, None),
    Fault.UNAVAILABLE: (503, "The engine is overloaded.", "server_error", None, "overloaded"),
}
_HEADERS = {Fault.RATE_LIMITED: {"retry-after": "7", "retry-after-ms": "6500", "x-ratelimit-remaining-requests": "0"}}
_REDIRECTS = {Fault.FOUND: 302, Fault.TEMPORARY_REDIRECT: 307}
_PAGE = "<!DOCTYPE html><title>Sign in</title><p>Please sign in to the network."


def error_of(fault: Fault) -> dict[str, Any]:
    """Return OpenAI's error. ERROR_IN_STREAM has that of SERVER_ERROR."""
    _, message, kind, param, code = _STATUSES.get(fault, _STATUSES[Fault.SERVER_ERROR])
    return {"message": message, "type": kind, "param": param, "code": code}


def error_body(fault: Fault, body: dict[str, Any] | None = None) -> bytes:
    """Return an error as OpenAI sends it: indented. `body` is what another API says in place of OpenAI's object."""
    return json.dumps(body or {"error": error_of(fault)}, indent=2, ensure_ascii=False).encode()


def refusal_of(fault: Fault, redirected_to: str, body: dict[str, Any] | None = None) -> Response | None:
    """Return the response of a fault that answers at once with something else than an answer, or None.

    `body` is what an API other than OpenAI's says of an error.
    """
    if fault in _STATUSES:
        return Response(error_body(fault, body), _STATUSES[fault][0], _HEADERS.get(fault), "application/json")
    if fault in _REDIRECTS:
        return Response(b"", _REDIRECTS[fault], {"location": redirected_to})
    if fault is Fault.HTML:
        return Response(_PAGE, media_type="text/html")
    if fault is Fault.GARBAGE:
        return Response('{"choices": [', media_type="application/json")
    return None
