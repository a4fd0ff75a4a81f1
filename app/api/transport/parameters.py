"""Strict query strings: a route refuses parameters that it does not have, and one value too many."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from weakref import WeakSet

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from mnema_wire.near_names import MAX_NAME_CHARS, nearest_hint
from mnema_wire.unique_keys import RepeatedKey, load_json
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from app.api.schemas.stored import withhold_contents
from app.api.transport.direct import Decoder, Handler, direct_handler, repeated_key
from app.api.transport.signature import signature_of
from app.domain.principal import Principal

PARTS = (
    "active-set",
    "artifacts",
    "assistant-signals",
    "buckets",
    "context",
    "feedback",
    "fingerprint",
    "reconcile",
    "summarize",
)
"""The last parts of paths below a conversation or a turn."""
MAX_REPORTED = 5
"""Unknown names that are reported one by one."""


class RankConvertor(Convertor[int]):
    """A whole number in a path, `{rank:rank}`, of at most nine digits. No route matches a longer one.

    Starlette's `int` accepts so many digits that Python refuses to convert them.
    """

    regex = "[0-9]{1,9}"

    def convert(self, value: str) -> int:
        """Return the number."""
        return int(value)

    def to_string(self, value: int) -> str:
        """Return the digits."""
        return str(value)


class TextConvertor(Convertor[str]):
    """The base of ids in a path that may hold slashes. The route refuses a line break, which no id has."""

    def convert(self, value: str) -> str:
        """Return the id."""
        return value

    def to_string(self, value: str) -> str:
        """Return the id."""
        return value


class ConversationConvertor(TextConvertor):
    """A conversation's id in a path that continues after it. It ends before the first `/turns/`."""

    regex = "(?s:(?:(?!/turns/).)+)"


class LastConversationConvertor(TextConvertor):
    """A conversation's id at the end of a path. It does not end in one of PARTS, which belongs to another route."""

    regex = f"(?s:(?!.*/(?:{'|'.join(PARTS)})$)(?:(?!/turns/).)+)"


class LastTurnConvertor(TextConvertor):
    """A turn's id at the end of a path. It does not end in one of PARTS either."""

    regex = f"(?s:(?!.*/(?:{'|'.join(PARTS)})$).+)"


register_url_convertor("rank", RankConvertor())
register_url_convertor("conversation", ConversationConvertor())
register_url_convertor("last_conversation", LastConversationConvertor())
register_url_convertor("last_turn", LastTurnConvertor())


class _UniqueKeysRequest(Request):
    """A request whose JSON body may name each key of an object once."""

    async def json(self) -> Any:
        """Return the value of the body. Raise RepeatedKey."""
        return load_json(await self.body())


class StrictRoute(APIRoute):
    """A route that refuses parameters it does not have. Plain routes bypass FastAPI's own handler.

    Its answers have no stored contents for a key that may not read.
    """

    decoders: ClassVar[Mapping[str, Decoder]] = {}
    """Decoders of bodies by media type, besides JSON. Only a plain route can have them."""

    direct: Handler | None = None
    """The handler of a plain route, None if only FastAPI can serve the route."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, _withhold_from_writers(endpoint), **options)

    def get_route_handler(self) -> Handler:
        """Return the direct handler of a plain route, else FastAPI's handler after a check of the names."""
        arguments = signature_of(self.endpoint).query
        known = frozenset(argument.alias or argument.name for argument in arguments)
        many = frozenset(argument.alias or argument.name for argument in arguments if argument.many)

        def check(request: Request) -> None:
            check_parameter_names(known, many, request.query_params)

        if self.direct is None:
            self.direct = direct_handler(self, check, self.decoders)
        if self.direct is not None:
            return self.direct
        if self.decoders:
            raise RuntimeError(f"{self.path} is no plain route: FastAPI cannot decode {', '.join(self.decoders)}")
        handle = super().get_route_handler()

        async def handle_checked(request: Request) -> Response:
            check(request)
            try:
                return await handle(_UniqueKeysRequest(request.scope, request.receive))
            except HTTPException as error:  # FastAPI's for a body that cannot be read
                if isinstance(error.__cause__, RepeatedKey):
                    raise repeated_key(error.__cause__) from error
                raise

        return handle_checked


_withholding: WeakSet[Callable[..., Any]] = WeakSet()
"""The endpoints that are wrapped already. A router that includes another one builds its routes a second time."""


def _withhold_from_writers(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return the endpoint, wrapped so that a key without the scope `query` gets no stored contents."""
    if endpoint in _withholding:
        return endpoint

    @functools.wraps(endpoint)
    async def answer(**arguments: Any) -> Any:
        result = await endpoint(**arguments)
        caller = next((value for value in arguments.values() if isinstance(value, Principal)), None)
        return result if caller is None or caller.has_scope("query") else withhold_contents(result)

    _withholding.add(answer)
    return answer


def check_parameter_names(known: frozenset[str], many: frozenset[str], given: QueryParams) -> None:
    """Raise RequestValidationError for unknown names, and for repeated ones that are not among the lists `many`.

    The message has the nearest known name, else all names.
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        raise RequestValidationError([_parameter_problem(name, known) for name in unknown[:MAX_REPORTED]])
    if len(given.multi_items()) > len(given):
        counts = Counter(name for name, _ in given.multi_items() if name not in many)
        repeated = [name for name, count in counts.items() if count > 1]
        if repeated:
            raise RequestValidationError([_repetition_problem(name) for name in repeated[:MAX_REPORTED]])


def _parameter_problem(name: str, known: frozenset[str]) -> dict[str, Any]:
    shown = name[:MAX_NAME_CHARS]
    hint = nearest_hint(shown, known) or f"this route takes: {', '.join(sorted(known)) or 'none'}"
    return {"type": "unknown_parameter", "loc": ("query", shown), "msg": f"unknown parameter; {hint}"}


def _repetition_problem(name: str) -> dict[str, Any]:
    return {"type": "repeated_parameter", "loc": ("query", name), "msg": "this parameter has one value, not several"}
