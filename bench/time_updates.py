"""Questions whose answer has changed: is the evidence found, and the newest first, with and without the rules of time.

    python -m bench.time_updates DATA

DATA is a file that `mnema eval` reads; of BEAM the questions about updates and contradictions are asked, whose evidence
is what the user said. Each turn of a user is written as a semantic memory, one after the other, with the clock at its
time: so each write may close the span of an earlier memory. `without` is the same store with `write.supersede` and
`query.dates` off.
"""

import argparse
import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Final

import asyncpg

from app.bootstrap import Doubles, build_application
from bench import throwaway
from bench.evaluation.asking import Asker, find_places
from bench.evaluation.data import Conversation, Question
from bench.evaluation.loading import load_chosen
from bench.evaluation.storing import StoredUnits, UnitWriter
from bench.evaluation.sweeps import Change, change_policy, write_config
from bench.throwaway import MovableClock

CATEGORY: Final = "preferences"
KINDS: Final = ("knowledge_update", "contradiction_resolution")
MODELS: Final = ("all-MiniLM-L6-v2", "multilingual-e5-small")
DEPTH: Final = 10
LONG_TEXTS: Final = Change("write.text_limits", "{semantic: 32000}")
"""A turn may be longer than a semantic memory is by default."""
WAYS: Final = {
    "with": (LONG_TEXTS,),
    "without": (LONG_TEXTS, Change("write.supersede", "false"), Change("query.dates", "false")),
}


@dataclass(frozen=True, slots=True)
class Found:
    """The evidence of one question among the first DEPTH items.

    `newest_first` is None for a question with one piece of evidence. Else it is True if the newest piece was found, and
    before each other one.
    """

    kind: str
    recall: float
    newest_found: bool
    newest_first: bool | None


def load_conversations(path: Path) -> list[Conversation]:
    """Return the conversations with the user's turns as memories, and the questions of KINDS."""
    data, _files = load_chosen([path], "auto", (), ("user",))
    return [
        replace(
            one,
            units=[replace(unit, category=CATEGORY) for unit in one.units],
            questions=[question for question in one.questions if question.kind in KINDS and question.evidence],
        )
        for one in data.conversations
    ]


def judge_ranking(question: Question, conversation: Conversation, ranked: Sequence[set[str]]) -> Found:
    """Return which evidence of a question is ranked, and whether the newest comes first."""
    said = [unit.id for unit in sorted(conversation.units, key=lambda unit: unit.at) if unit.id in question.evidence]
    *older, newest = find_places(said, ranked)
    found = newest <= DEPTH
    return Found(
        question.kind,
        mean(place <= DEPTH for place in (*older, newest)),
        found,
        found and newest < min(older) if older else None,
    )


@contextmanager
def _changed_config(changes: Sequence[Change]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = write_config(Path(name), [CATEGORY])
        policies = folder / "policies.yaml"
        for change in changes:
            policies.write_text(change_policy(policies.read_text(encoding="utf-8"), change), encoding="utf-8")
        yield folder


async def _measure(
    site: throwaway.Site, config: Path, conversations: Sequence[Conversation]
) -> tuple[list[Found], dict[str, int]]:
    """Store the conversations and ask. Return what was found, and the number of memories by state."""
    clock = MovableClock()
    settings = site.home.server_settings(site.cluster).model_copy(update={"config_dir": config})
    found = []
    async with build_application(settings, Doubles(clock=clock)) as app:
        principal = await app.tenancy.tenants.authenticate(site.key)
        assert principal is not None
        writer = UnitWriter(app, principal, clock, print)
        asker = Asker(app, principal, clock, DEPTH, "default")
        for number, one in enumerate(conversations, start=1):
            stored: StoredUnits = await writer.store_conversation(f"conversation-{number}", one)
            for question in one.questions:
                ranked = await asker.rank_units(one, stored, question)
                found.append(judge_ranking(question, one, ranked))
    sql = await asyncpg.connect(site.superuser_url)
    try:
        rows = await sql.fetch("SELECT state::text, count(*) AS held FROM memories GROUP BY state ORDER BY state")
    finally:
        await sql.close()
    return found, {row["state"]: row["held"] for row in rows}


def describe_found(found: Sequence[Found]) -> Iterator[str]:
    """Yield a line for each kind of question."""
    by_kind: defaultdict[str, list[Found]] = defaultdict(list)
    for one in found:
        by_kind[one.kind].append(one)
    for kind, ones in by_kind.items():
        orders = [one.newest_first for one in ones if one.newest_first is not None]
        yield (
            f"  {kind}: {len(ones)} questions, recall@{DEPTH} {mean(one.recall for one in ones):.3f}, "
            f"newest found {sum(one.newest_found for one in ones)}, "
            f"newest first {sum(orders)} of {len(orders)} with several pieces of evidence"
        )


def main() -> None:
    """Print the figures of each model, with and without the rules."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    conversations = load_conversations(parser.parse_args().data)
    for model in MODELS:
        for way, changes in WAYS.items():
            with throwaway.using_model(model), throwaway.open_site(0) as site, _changed_config(changes) as config:
                found, states = asyncio.run(_measure(site, config, conversations))
            print(f"{model}, {way} the rules, memories: {', '.join(f'{held} {name}' for name, held in states.items())}")
            print("\n".join(describe_found(found)), flush=True)


if __name__ == "__main__":
    main()
