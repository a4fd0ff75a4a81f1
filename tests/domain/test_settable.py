"""The marks of a policy's fields: their ranges, and whether a tenant may set them."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from app.domain.settable import COUNT, SETTABLE, Range, Settable, check_ranges, marked_fields


@dataclass(frozen=True, slots=True)
class Policy:
    share: Annotated[float | None, SETTABLE, Range(0, 1, excludes_low=True)] = None
    wait_s: Annotated[float, Range(0, excludes_low=True)] = 1
    tries: Annotated[int, COUNT, Range(1, 5)] = 1
    rows: Annotated[int, Range(1)] = 1
    name: str = "any"

    def __post_init__(self) -> None:
        check_ranges(self)


def test_the_ends_of_a_range_belong_to_it_unless_the_low_one_is_excluded() -> None:
    assert Policy(share=1, tries=5, rows=10**9)
    assert Policy(tries=1, wait_s=0.001)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"share": 0}, "share must be above 0 and at most 1"),
        ({"share": 1.01}, "share must be above 0 and at most 1"),
        ({"share": float("nan")}, "share must be above 0 and at most 1"),
        ({"wait_s": 0}, "wait_s must be above 0"),
        ({"tries": 0}, "tries must be from 1 to 5"),
        ({"tries": 6}, "tries must be from 1 to 5"),
        ({"rows": 0}, "rows must be at least 1"),
    ],
)
def test_a_value_outside_its_range_is_refused_with_the_range(values: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}$"):
        Policy(**values)


def test_marks_are_found_by_their_kind() -> None:
    assert marked_fields(Policy, Settable) == {"share": SETTABLE, "tries": COUNT}
    assert list(marked_fields(Policy, Range)) == ["share", "wait_s", "tries", "rows"]
