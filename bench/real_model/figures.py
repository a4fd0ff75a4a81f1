"""The figures of one way of reading the turns, and their comparison in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.limits import Limit

PIPELINES: Final = frozenset(
    {"multi_fact", "episode", "summary", "insights", "reconcile", "same_fact", "ctx_reconciler", "turn_summary"}
)
"""The prompts that each way with a model must have sent."""
CALLS_A_TURN: Final = 12
"""More calls than all readers of one turn may make: six prompts, each with one retry."""


@dataclass(frozen=True, slots=True)
class PromptFigures:
    """The calls of one prompt. `usable`: answers with something that kept the rules; `refused`: others, by rule."""

    prompt: str
    calls: int
    usable: int
    unreadable: int
    refused: Mapping[str, int]
    failed: int
    input_tokens: int
    output_tokens: int
    median_s: float
    longest_s: float


@dataclass(slots=True)
class SideFigures:
    """The figures of one way.

    - `turns`: the number of turns by what became of them: read, waiting, lost, or skipped and the reason.
    - `stored`: memories by pipeline. `texts`: the users and texts of active semantic memories.
    - `told`: of the `facts` that the turns tell, those that a semantic memory tells.
    - `driven`: results of the pipelines that the bench drives itself, by code.
    - `again`: calls of the model that a second round of the scheduled jobs made, when nothing was new.
    """

    name: str
    seconds: float = 0.0
    turns: dict[str, int] = field(default_factory=dict)
    prompts: list[PromptFigures] = field(default_factory=list)
    stored: dict[str, int] = field(default_factory=dict)
    texts: list[tuple[str, str]] = field(default_factory=list)
    told: int = 0
    facts: int = 0
    driven: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    spent: int = 0
    limit: int = 0
    again: int = 0

    @property
    def calls(self) -> int:
        """The calls of the model."""
        return sum(prompt.calls for prompt in self.prompts)

    @property
    def met(self) -> set[str]:
        """The pipelines whose prompt was sent to the model."""
        return {prompt.prompt.rpartition(".v")[0] for prompt in self.prompts} & PIPELINES

    @property
    def usable_share(self) -> float:
        """The share of calls with a usable answer; 1 without any call."""
        return sum(prompt.usable for prompt in self.prompts) / self.calls if self.calls else 1.0

    @property
    def memories(self) -> int:
        """The active semantic memories."""
        return len(self.texts)

    def count_turns(self, word: str) -> int:
        """Return the number of turns whose end begins with a word."""
        return sum(number for end, number in self.turns.items() if end.startswith(word))


@dataclass(slots=True)
class Report:
    """All ways, the first one without a model."""

    turns: int
    sides: list[SideFigures] = field(default_factory=list)

    def limits(self) -> list[Limit]:
        """Return the bounds of each way with a model."""
        without, *others = self.sides
        bounds = [
            Limit("turns without a model that are lost", without.count_turns("lost"), 0, at_least=False),
        ]
        for side in others:
            bounds += [
                Limit(f"{side.name}: memories", side.memories, without.memories),
                Limit(f"{side.name}: facts told", side.told, without.told),
                Limit(f"{side.name}: pipelines that met the model", len(side.met), len(PIPELINES)),
                Limit(f"{side.name}: turns lost", side.count_turns("lost"), 0, at_least=False),
                Limit(f"{side.name}: turns accounted for", sum(side.turns.values()), self.turns),
                Limit(f"{side.name}: tokens spent", side.spent, side.limit, at_least=False),
                Limit(f"{side.name}: calls", side.calls, CALLS_A_TURN * self.turns, at_least=False),
                Limit(f"{side.name}: calls when nothing is new", side.again, 0, at_least=False),
            ]
        return bounds


def markdown_report(report: Report) -> str:
    """Return the report as Markdown: a table of the ways, a table of prompts for each, and the limits."""
    parts = [_table(["", *(side.name for side in report.sides)], _side_rows(report.sides))]
    for side in report.sides:
        if side.prompts:
            parts.append(f"### {side.name}\n\n{_table(PROMPT_COLUMNS, [_prompt_row(one) for one in side.prompts])}")
    parts.append("\n".join(f"- {limit.line}" for limit in report.limits()))
    return "\n\n".join(parts) + "\n"


PROMPT_COLUMNS: Final = [
    "prompt",
    "calls",
    "usable",
    "unreadable",
    "refused by rule",
    "failed",
    "tokens in",
    "tokens out",
    "median s",
    "longest s",
]


def _side_rows(sides: Sequence[SideFigures]) -> list[list[str]]:
    def row(name: str, read: Any) -> list[str]:
        return [name, *(str(read(side)) for side in sides)]

    return [
        row("seconds", lambda side: f"{side.seconds:.0f}"),
        row("calls", lambda side: side.calls),
        row("usable answers", lambda side: f"{side.usable_share:.0%}" if side.calls else "–"),
        row("tokens spent of the day's limit", lambda side: f"{side.spent} of {side.limit}"),
        row("semantic memories", lambda side: side.memories),
        row("facts told", lambda side: f"{side.told} of {side.facts}"),
        row("stored by pipeline", lambda side: _counts(side.stored)),
        row("turns", lambda side: _counts(side.turns)),
        row("jobs", lambda side: _counts(side.jobs)),
        row("pipelines that met the model", lambda side: len(side.met) if side.calls else "–"),
        row("driven by the bench", lambda side: _counts(side.driven)),
    ]


def _prompt_row(one: PromptFigures) -> list[str]:
    counts = [one.prompt, one.calls, one.usable, one.unreadable, _counts(one.refused), one.failed]
    return [*map(str, [*counts, one.input_tokens, one.output_tokens]), f"{one.median_s:.1f}", f"{one.longest_s:.1f}"]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items())) or "–"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
