"""Parameters of the query string: a route that is asked for what it does not know refuses to guess."""

from collections.abc import Callable, Coroutine, Iterable
from difflib import get_close_matches
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

MOST_READ = 60
"""Characters of a name that are compared and repeated."""
MOST_TOLD = 5


class StrictRoute(APIRoute):
    """A route that refuses parameters it does not have."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, behind the check."""
        handle, known = super().get_route_handler(), parameters_of(self)

        async def checked(request: Request) -> Response:
            check_names(known, request.query_params)
            return await handle(request)

        return checked


def parameters_of(route: APIRoute) -> frozenset[str]:
    """The names of the parameters that a route takes from the query string."""
    return frozenset(parameter.alias for parameter in route.dependant.query_params)


def check_names(known: frozenset[str], given: Iterable[str]) -> None:
    """Raise RequestValidationError for a name that is not known; it tells the nearest one, or all."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise RequestValidationError([_problem(name, known) for name in unknown[:MOST_TOLD]])


def _problem(name: str, known: frozenset[str]) -> dict[str, Any]:
    shown = name[:MOST_READ]
    near = get_close_matches(shown, sorted(known), 1)
    names = ", ".join(sorted(known)) or "none"
    hint = f"did you mean {near[0]!r}?" if near else f"this route takes: {names}"
    return {"type": "unknown_parameter", "loc": ("query", shown), "msg": f"unknown parameter; {hint}"}
