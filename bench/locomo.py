"""LoCoMo for Mnema: convert its conversations to import lines, and send its questions to a running server.

LoCoMo (snap-research, CC BY-NC 4.0) is a JSON list of conversations, each a row of dated sessions between two people.
The caller provides the file; LoCoMo is not part of this project.

    python -m bench.locomo convert FILE --conversation 1 --out turns.jsonl
    python -m bench.locomo questions FILE --conversation 1 --limit 10
    python -m bench.locomo ask FILE --conversation 1 --limit 10

`ask` reads MNEMA_URL (default http://127.0.0.1:8000) and MNEMA_API_KEY from the environment.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

ANSWERABLE = (1, 2, 3, 4)
"""The categories whose questions the conversation can answer; category 5 is adversarial."""

TOP_K = 10
TEXT_WIDTH = 100
_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"D\s*:?\s*(\d+)\s*:\s*(\d+)", re.IGNORECASE)
_SESSION_TIME = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, slots=True)
class Question:
    """One question; `evidence` names the turns that hold its answer, as `D<session>:<turn>`."""

    question: str
    answer: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """One memory the server returned; `dia_id` is None for a memory that is not a LoCoMo turn."""

    dia_id: str | None
    text: str


def load_conversation(path: Path, conversation: int) -> dict[str, Any]:
    """Return the conversation at this place in the file, counted from 1. Raise ValueError if there is none."""
    conversations = json.loads(path.read_text(encoding="utf-8"))
    held = len(conversations) if isinstance(conversations, list) else 0
    if not 1 <= conversation <= held:
        raise ValueError(f"there is no conversation {conversation}: {path.name} holds {held}")
    chosen: dict[str, Any] = conversations[conversation - 1]
    return chosen


def count_conversations(path: Path) -> int:
    """Return the number of conversations in the file."""
    return len(json.loads(path.read_text(encoding="utf-8")))


def user_of(sample_id: str) -> str:
    """Return the user id under which a conversation is imported."""
    return f"locomo-{sample_id}"


def session_time(text: str) -> datetime:
    """Read "1:56 pm on 8 May, 2023" as UTC. LoCoMo names no time zone."""
    return datetime.strptime(" ".join(text.split()), _SESSION_TIME).replace(tzinfo=UTC)


def normalise_evidence(raw: object) -> tuple[str, ...]:
    """Return every turn id in an evidence field once, in order.

    The field is a list of strings. Some hold two ids ("D8:6; D9:17"), odd punctuation ("D:11:26"), padding ("D30:05")
    or a cut-off id ("D", which names no turn and is dropped).
    """
    parts = raw if isinstance(raw, list) else [raw]
    found = (match for part in parts if isinstance(part, str) for match in _TURN_ID.finditer(part))
    return tuple(dict.fromkeys(f"D{int(match[1])}:{int(match[2])}" for match in found))


def turn_content(turn: dict[str, Any]) -> str:
    """Return the text of a turn, with the caption of its photo if there is one."""
    text = str(turn.get("text") or "").strip()
    caption = str(turn.get("blip_caption") or "").strip()
    return f"{text} [shares a photo: {caption}]".strip() if caption else text


def session_numbers(talk: dict[str, Any]) -> list[int]:
    """Return the numbers of the sessions that have turns, in order. Some files date sessions without turns."""
    matches = (_SESSION.fullmatch(key) for key, turns in talk.items() if turns)
    return sorted(int(match[1]) for match in matches if match)


def import_lines(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one import line per turn: a thread per session, `seq` from 1, a second between turns.

    The first speaker takes the role of the user and the second that of the assistant; `actor_id` keeps the names.
    """
    sample_id = str(sample["sample_id"])
    talk = sample["conversation"]
    for number in session_numbers(talk):
        started = session_time(talk[f"session_{number}_date_time"])
        for seq, turn in enumerate(talk[f"session_{number}"], start=1):
            yield {
                "user_id": user_of(sample_id),
                "thread_id": f"{sample_id}/s{number}",
                "role": "user" if turn["speaker"] == talk["speaker_a"] else "assistant",
                "actor_id": turn["speaker"],
                "content": turn_content(turn),
                "seq": seq,
                "created_at": (started + timedelta(seconds=seq)).isoformat(),
                "metadata": {"dia_id": turn["dia_id"]},
            }


def load_questions(path: Path, conversation: int, categories: Sequence[int] = ANSWERABLE) -> list[Question]:
    """Return the questions of one conversation (counted from 1) in these categories, in file order."""
    return [
        Question(str(entry["question"]), str(entry.get("answer", "")), category, normalise_evidence(entry["evidence"]))
        for entry in load_conversation(path, conversation)["qa"]
        if (category := int(entry["category"])) in categories
    ]


def ask_server(client: httpx.Client, user_id: str, question: str) -> list[FoundMemory]:
    """Return the items of `memory.query`, best first, at most TOP_K. Raise httpx.HTTPError."""
    body = {
        "agent": "supervisor",
        "query": question,
        "categories": ["activity"],
        "filters": {"user_id": user_id},
        "top_k": TOP_K,
        "return": "full",
        "budget_tokens": 4096,
    }
    response = client.post("/memory/query", json=body)
    response.raise_for_status()
    items = response.json()["items"][:TOP_K]
    return [FoundMemory((item.get("metadata") or {}).get("dia_id"), str(item["text"])) for item in items]


def report_answer(number: int, question: Question, found: Sequence[FoundMemory]) -> int:
    """Print one question with the memories that the server found. Return the number of evidence turns among them."""
    places = {item.dia_id: place for place, item in reversed(list(enumerate(found, start=1)))}
    print(f"\n{number}. {question.question}")
    print(f"   answer: {question.answer}")
    print(f"   evidence: {', '.join(question.evidence) or 'none named'}")
    for place, item in enumerate(found, start=1):
        mark = "*" if item.dia_id in question.evidence else " "
        text = " ".join(item.text.split())
        shown = text if len(text) <= TEXT_WIDTH else text[: TEXT_WIDTH - 3] + "..."
        print(f"   {mark}{place:>3}. {item.dia_id or '-':<7} {shown}")
    for turn in question.evidence:
        print(f"   {turn}: {f'found, place {places[turn]}' if turn in places else 'not found'}")
    return sum(turn in places for turn in question.evidence)


def ask_all(client: httpx.Client, user_id: str, questions: Sequence[Question]) -> None:
    """Ask each question and print the results, then hits, misses and evidence recall@10.

    Recall is counted over evidence turns, and also averaged over questions. A question without evidence is asked but
    not counted. An id that no turn has counts as a miss.
    """
    hits = total = 0
    shares: list[float] = []
    for number, question in enumerate(questions, start=1):
        hit = report_answer(number, question, ask_server(client, user_id, question.question))
        if question.evidence:
            hits, total = hits + hit, total + len(question.evidence)
            shares.append(hit / len(question.evidence))
    print(f"\nquestions: {len(questions)} ({len(shares)} with evidence)")
    print(f"evidence turns: {total}, hits: {hits}, misses: {total - hits}")
    if shares:
        print(
            f"evidence recall@{TOP_K}: {hits / total:.3f} of turns, {sum(shares) / len(shares):.3f} mean of questions"
        )


def run_convert(arguments: argparse.Namespace) -> None:
    """Run `convert`: write import lines to --out, or to standard output."""
    lines = [json.dumps(line, ensure_ascii=False) for line in import_lines(chosen_sample(arguments))]
    text = "".join(f"{line}\n" for line in lines)
    if arguments.out is None:
        sys.stdout.write(text)
        return
    arguments.out.write_text(text, encoding="utf-8")
    print(f"{len(lines)} turns written to {arguments.out}")


def run_questions(arguments: argparse.Namespace) -> None:
    """Run `questions`: print the answerable questions with their evidence."""
    for number, question in enumerate(chosen_questions(arguments), start=1):
        print(f"{number}. [{question.category}] {question.question}")
        print(f"   answer: {question.answer}")
        print(f"   evidence: {', '.join(question.evidence) or 'none named'}")


def run_ask(arguments: argparse.Namespace) -> None:
    """Run `ask`: send the questions to the server at MNEMA_URL."""
    key = os.environ.get("MNEMA_API_KEY")
    if not key:
        raise ValueError("MNEMA_API_KEY is not set")
    url = os.environ.get("MNEMA_URL", "http://127.0.0.1:8000")
    user_id = user_of(str(chosen_sample(arguments)["sample_id"]))
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        ask_all(client, user_id, chosen_questions(arguments))


def chosen_sample(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the conversation that the command line names."""
    return load_conversation(arguments.file, arguments.conversation)


def chosen_questions(arguments: argparse.Namespace) -> list[Question]:
    """Return the first --limit answerable questions, or all of them."""
    return load_questions(arguments.file, arguments.conversation)[: arguments.limit]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line: convert, questions, ask."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("file", type=Path, metavar="FILE", help="LoCoMo JSON")
    shared.add_argument(
        "--conversation", type=int, default=1, metavar="N", help="place in the file, from 1 (default 1)"
    )
    limited = argparse.ArgumentParser(add_help=False, parents=[shared])
    limited.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N questions")
    parser = argparse.ArgumentParser(prog="python -m bench.locomo", description="LoCoMo for Mnema.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    convert = commands.add_parser("convert", parents=[shared], help="write a conversation as import lines")
    convert.add_argument("--out", type=Path, metavar="TURNS", help="where to write (default: standard output)")
    convert.set_defaults(run=run_convert)
    commands.add_parser("questions", parents=[limited], help="print the questions").set_defaults(run=run_questions)
    commands.add_parser("ask", parents=[limited], help="ask a running server").set_defaults(run=run_ask)
    return parser


def positive_integer(text: str) -> int:
    """Return a whole number of at least 1. Raise ValueError otherwise."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. On an error, print one line to standard error and return 1."""
    arguments = build_parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except httpx.HTTPStatusError as error:
        print(f"the server answered {error.response.status_code}: {error.response.text[:500]}", file=sys.stderr)
        return 1
    except (ValueError, OSError, httpx.HTTPError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
