"""The mark of a policy's field that a tenant may set, with the range that protects the machine."""

from dataclasses import dataclass
from typing import Any, Final, get_type_hints


@dataclass(frozen=True, slots=True)
class Settable:
    """A tenant may set the field, from `low` to `high`. Without a range the policy alone checks the value."""

    low: float | None = None
    high: float | None = None


SETTABLE: Final = Settable()
DAYS: Final = Settable(1, 36_500)
HOURS: Final = Settable(0, 8_760)
COUNT: Final = Settable(0, 1_000)
MINUTES: Final = Settable(1, 10_080)
WEIGHT: Final = Settable(-100, 100)


def settable_fields(policy: type[Any]) -> dict[str, Settable]:
    """Return the fields of a policy that a tenant may set, in their order."""
    hints = get_type_hints(policy, include_extras=True)
    marks = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: mark for name, found in marks.items() for mark in found if isinstance(mark, Settable)}
