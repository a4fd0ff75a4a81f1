"""The share of a model's verdicts that are carried out, by labelled conversations.

    python -m bench.verdicts

bench/verdicts.jsonl has 200 verdicts on a stored memory; `supported` says that the user's words support the verdict.
A supported verdict must be carried out, an unsupported one refused. Verdicts that add a memory are not measured here.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from app.domain.reflection.evidence import Evidence, Message
from app.domain.reflection.reconcile import MemoryDecision, find_decision_veto

VERDICTS_FILE: Final = Path(__file__).with_name("verdicts.jsonl")


def load_verdicts(part: str) -> Iterator[Mapping[str, Any]]:
    """Yield the labelled updates and deletions of a part, `development` or `held-out`."""
    for line in VERDICTS_FILE.read_text(encoding="utf-8").splitlines():
        verdict = json.loads(line)
        if verdict["part"] == part and verdict["verdict"] != "ADD":
            yield verdict


def is_carried_out(verdict: Mapping[str, Any]) -> bool:
    """Return True if the verdict changes the memory. The fact of a deletion is the user's own message."""
    *before, last = verdict["turns"]
    evidence = Evidence(last["text"], [Message(one["role"], one["text"]) for one in before])
    decision = MemoryDecision(0, verdict["verdict"], 0)
    return find_decision_veto(decision, verdict["stored"], verdict["text"] or last["text"], evidence) is None


def count_right(part: str) -> tuple[Counter[bool], Counter[bool]]:
    """Return the number of right decisions and of all, by `supported`."""
    right, total = Counter[bool](), Counter[bool]()
    for verdict in load_verdicts(part):
        total[verdict["supported"]] += 1
        right[verdict["supported"]] += is_carried_out(verdict) == verdict["supported"]
    return right, total


def main() -> None:
    """Print the shares of each part."""
    for part in ("development", "held-out"):
        right, total = count_right(part)
        print(
            f"{part}: {right[True]}/{total[True]} supported carried out, {right[False]}/{total[False]} others refused"
        )


if __name__ == "__main__":
    main()
