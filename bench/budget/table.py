"""The table of a budget."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a request with its CPU milliseconds. `floor` is the least work that does the same; None: not known."""

    name: str
    cpu_ms: float
    floor_ms: float | None = None
    floor: str = ""


def render_table(title: str, parts: Sequence[Part]) -> str:
    """Return the parts as a Markdown table, with their share of the whole."""
    whole = sum(part.cpu_ms for part in parts)
    lines = [f"{title}: {whole:.2f} ms of CPU", "", "| part | ms | share | floor |", "|---|---|---|---|"]
    for part in parts:
        floor = "" if part.floor_ms is None else f"{part.floor_ms:.2f}: {part.floor}"
        lines.append(f"| {part.name} | {part.cpu_ms:.2f} | {part.cpu_ms / whole:.0%} | {floor} |")
    return "\n".join(lines)
