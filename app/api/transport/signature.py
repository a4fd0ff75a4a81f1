"""The arguments of an endpoint, read from its signature: the source and the validation of each."""

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from fastapi import Request
from fastapi.params import Depends, Header, Param, Query
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.datastructures import Headers, QueryParams

Problem = dict[str, Any]
"""One entry of RequestValidationError: `type`, `loc`, `msg`, `input`."""


@dataclass(frozen=True)
class Argument:
    """An argument that is validated.

    `place` is query, header or body. `alias` is its name in the request, None for a body. `hint` is its type. `many`:
    it is a list of all values that the request gives for the name.
    """

    name: str
    place: str
    alias: str | None
    hint: Any
    default: Any = inspect.Parameter.empty
    many: bool = False

    @cached_property
    def type(self) -> TypeAdapter[Any]:
        """The validation, which the first request builds. FastAPI has built its own from the same type at the start."""
        return TypeAdapter(self.hint)

    @property
    def loc(self) -> tuple[str, ...]:
        """The path of this argument in an error, such as `("query", "limit")`."""
        return (self.place,) if self.alias is None else (self.place, self.alias)

    def missing(self) -> tuple[Any, list[Problem]]:
        """Return the default, or the problem that the argument is missing."""
        if self.default is not inspect.Parameter.empty:
            return deepcopy(self.default), []
        return None, [{"type": "missing", "loc": self.loc, "msg": "Field required", "input": None}]

    def validate(self, value: Any) -> tuple[Any, list[Problem]]:
        """Return the validated argument, or the problems of `value`."""
        try:
            return self.type.validate_python(value, from_attributes=True), []
        except ValidationError as error:
            problems = error.errors(include_url=False)
            return None, [{**problem, "loc": (*self.loc, *problem["loc"])} for problem in problems]

    def read(self, given: QueryParams | Headers) -> tuple[Any, list[Problem]]:
        """Return the argument from the query string or the headers in `given`, or its problems."""
        name = self.alias or self.name
        value = given.getlist(name) or None if self.many else given.get(name)
        return self.missing() if value is None else self.validate(value)


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of an endpoint by their source. `other` are the names that only FastAPI can fill."""

    query: tuple[Argument, ...]
    headers: tuple[Argument, ...]
    bodies: tuple[Argument, ...]
    dependencies: Mapping[str, Callable[..., Any]]
    request: str | None
    other: frozenset[str]


def signature_of(endpoint: Callable[..., Any]) -> Signature:
    """Return the signature of an endpoint whose parameters have FastAPI's annotations."""
    hints = get_type_hints(endpoint, include_extras=True)
    arguments: dict[str, list[Argument]] = {"query": [], "header": [], "body": []}
    dependencies: dict[str, Callable[..., Any]] = {}
    request = None
    other = set()
    for name, parameter in inspect.signature(endpoint).parameters.items():
        hint = hints[name]
        marker = next((part for part in _parts(hint) if isinstance(part, Depends | Param)), None)
        if isinstance(marker, Depends) and marker.dependency is not None:
            dependencies[name] = marker.dependency
        elif hint is Request:
            request = name
        elif isinstance(marker, Query | Header):
            place = "query" if isinstance(marker, Query) else "header"
            arguments[place].append(
                Argument(name, place, _alias(name, marker), _type(hint), parameter.default, _is_list(hint))
            )
        elif marker is None and isinstance(hint, type) and issubclass(hint, BaseModel):
            arguments["body"].append(Argument(name, "body", None, hint, parameter.default))
        else:
            other.add(name)
    query, headers, bodies = (tuple(group) for group in arguments.values())
    return Signature(query, headers, bodies, dependencies, request, frozenset(other))


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _is_list(hint: Any) -> bool:
    """Return True for a parameter that may be repeated: a list, or a list or None."""
    base = get_args(hint)[0]
    choices = get_args(base) if get_origin(base) in (Union, UnionType) else (base,)
    return any(get_origin(choice) is list for choice in choices)


def _alias(name: str, marker: Query | Header) -> str:
    if marker.alias:
        return marker.alias
    return name.replace("_", "-") if isinstance(marker, Header) and marker.convert_underscores else name


def _type(hint: Any) -> Any:
    """Return the type without FastAPI's marker but with the marker's constraints."""
    parts = [part for piece in _parts(hint) for part in (piece.metadata if isinstance(piece, Param) else (piece,))]
    base = get_args(hint)[0]
    return Annotated[base, *parts] if parts else base
