"""The marks of a policy's fields: the range of a value, and whether a tenant may set it."""

import math
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_type_hints

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a field: from `low` to `high`, both included. `excludes_low`: `low` itself is too small."""

    low: float
    high: float = math.inf
    excludes_low: bool = False

    def includes(self, value: float) -> bool:
        """Tell whether the range has this value."""
        return self.low <= value <= self.high and not (self.excludes_low and value == self.low)

    def describe(self) -> str:
        """Return the range in words."""
        if self.excludes_low:
            return f"above {self.low}" if self.high == math.inf else f"above {self.low} and at most {self.high}"
        return f"at least {self.low}" if self.high == math.inf else f"from {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Settable:
    """A tenant may set the field, from `low` to `high`: a range that protects the machine.

    Without one, the policy alone checks the value.
    """

    low: float | None = None
    high: float | None = None


SETTABLE: Final = Settable()
DAYS: Final = Settable(1, 36_500)
HOURS: Final = Settable(0, 8_760)
COUNT: Final = Settable(0, 1_000)
MINUTES: Final = Settable(1, 10_080)
WEIGHT: Final = Settable(-100, 100)
_RANGES: Final[dict[type[Any], dict[str, Range]]] = {}


def marked_fields(policy: type[Any], kind: type[M]) -> dict[str, M]:
    """Return the fields of a policy that have a mark of this kind, with their marks, in their order."""
    hints = get_type_hints(policy, include_extras=True)
    marks = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: mark for name, found in marks.items() for mark in found if isinstance(mark, kind)}


def check_ranges(policy: object) -> None:
    """Raise ValueError, with the range, if a field of a policy has a value outside its own. None has any."""
    kind = type(policy)
    if kind not in _RANGES:
        _RANGES[kind] = marked_fields(kind, Range)
    for name, bounds in _RANGES[kind].items():
        value = getattr(policy, name)
        if value is not None and not bounds.includes(value):
            raise ValueError(f"{name} must be {bounds.describe()}")


class RangedPolicy:
    """The base of a policy that checks nothing but the ranges of its fields."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raise ValueError if a field has a value outside its range."""
        check_ranges(self)
