"""Signals: their severities and scopes, their identity, and what is refused."""

from typing import Any

import pytest
from mnema_wire.turn_limits import MAX_SIGNALS

from app.domain.errors import InvalidInput
from app.domain.turn_memory.signals import (
    DEFAULT_SEVERITY,
    SCOPES,
    SEVERITIES,
    SignalKind,
    read_signal,
    read_signals,
    signal_tag,
)

FACTS = SignalKind.facts


def test_each_kind_has_its_severities() -> None:
    assert {kind.value: known for kind, known in SEVERITIES.items()} == {
        "assertions": ("must", "prefer", "allow"),
        "exceptions": ("avoid", "do_not"),
        "facts": ("high", "medium", "low"),
        "assistant_signals": ("mention", "recommend", "strong_promote"),
    }
    assert all(DEFAULT_SEVERITY[kind] in known for kind, known in SEVERITIES.items())
    assert SCOPES == ("conversation", "objective", "artifact", "thread")


def test_equal_identities_count_once_and_the_last_one_stays() -> None:
    same = [{"key": "City", "value": "Porto", "severity": "low"}, {"key": "city", "value": "porto", "severity": "high"}]
    other = [
        {"key": "city", "value": "porto", "scope": "thread"},
        {"key": "city", "value": "porto", "applies_to": "job"},
    ]
    read = read_signals(FACTS, same + other)
    assert [(signal.severity, signal.scope, signal.applies_to) for signal in read] == [
        ("high", "conversation", ""),
        ("medium", "thread", ""),
        ("medium", "conversation", "job"),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"key": 7},
        {"key": " "},
        {"key": "x" * 121},
        {"key": "a", "severity": "must"},
        {"key": "a", "scope": "world"},
        {"key": "a", "value": "x" * 1001},
        {"key": "a", "value": float("nan")},
        {"key": "a", "value": {"b": ["x" * 1000]}},
        {"key": "a", "value": {"b\x00": 1}},
        {"key": "a", "value": ["\ud800"]},
        {"key": "a", "value": "\ud800"},
        {"key": "a", "value": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]},
        {"key": "a", "applies_to": "x" * 201},
    ],
)
def test_a_bad_signal_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        read_signal(FACTS, raw)


def test_a_kind_has_at_most_32_signals() -> None:
    many = [{"key": f"k{number}"} for number in range(MAX_SIGNALS)]
    assert len(read_signals(FACTS, many)) == MAX_SIGNALS == 32
    with pytest.raises(InvalidInput, match="at most 32"):
        read_signals(FACTS, [*many, {"key": "one more"}])


def test_a_tag_has_no_blanks_and_no_capitals() -> None:
    assert signal_tag("Product Capability") == "product_capability"
    assert signal_tag("product.capability-2") == "product.capability-2"
    assert signal_tag("!?") == ""
