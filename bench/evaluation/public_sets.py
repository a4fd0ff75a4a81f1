"""Loaders of public sets: each makes the lines of the native form from a published file.

The files are not part of this project. A question whose evidence the file does not name is left out and counted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bench import locomo
from bench.evaluation.data import DataError, Read, Skipped

NO_EVIDENCE: Final = "questions without named evidence"
NO_TEXT: Final = "turns without text"
LOCOMO_KINDS: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ADVERSARIAL: Final = 5
"""LoCoMo's questions about what the other person said: the conversation does not answer them."""
ABSTENTION: Final = "abstention"
BEAM_STEP: Final = timedelta(seconds=30)
"""The time between two messages of BEAM, which dates only the beginning of a batch."""
BEAM_ANSWERS: Final = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
"""The fields with BEAM's expected answer. Each kind of question has another one."""
_REALTALK_TIME: Final = "%d.%m.%Y, %H:%M:%S"
_LONGMEMEVAL_TIME = re.compile(r"(\d{4})/(\d\d)/(\d\d)(?: \(\w+\))?(?: (\d\d):(\d\d))?")
_SESSION = re.compile(r"session_(\d+)")
_BEAM_INDEX = re.compile(r"\s*->->\s*[\d, ]+\s*$")
"""BEAM's mark of a message's place in the plan, which is no part of the message."""


def _ask(
    place: str,
    conversation: str,
    text: str,
    evidence: Sequence[str],
    kind: object,
    *,
    open_end: bool,
    expected: object = None,
) -> Read:
    """Return the line of a question. One without evidence counts only if it is known that nothing answers it."""
    if not evidence and not open_end:
        return place, Skipped(NO_EVIDENCE)
    found = [] if open_end else list(dict.fromkeys(evidence))
    line = {"question": text, "conversation": conversation, "evidence": found, "kind": str(kind)}
    answer = "" if expected is None else str(expected).strip()  # some answers are numbers
    return place, line | ({"answer": answer} if answer else {})


def _turn(place: str, text: str, **fields: Any) -> Read:
    return (place, {"text": text, **fields}) if text.strip() else (place, Skipped(NO_TEXT))


def read_conversations(name: str, data: Any) -> Iterator[Read]:
    """Yield the lines of conversations as `[{"conv", "turns", "qs": [{"q", "ev", "cat", "a"}]}]`.

    A question with an empty `ev` has no answer; `a` is the expected one.
    """
    for sample in data:
        conversation = str(sample["conv"])
        place = f"{name}, conversation {conversation}"
        known = {str(turn["id"]) for turn in sample["turns"]}
        for turn in sample["turns"]:
            fields = {key: turn.get(key) for key in ("actor", "role", "thread", "seq", "at")}
            given = {key: value for key, value in fields.items() if value is not None}
            yield _turn(place, turn["text"], turn=str(turn["id"]), conversation=conversation, **given)
        for number, asked in enumerate(sample["qs"], start=1):
            evidence = [str(id_) for id_ in asked["ev"] if str(id_) in known]
            where = f"{place}, question {number}"
            kind = asked.get("cat", "question")
            expected = asked.get("a")
            yield _ask(where, conversation, asked["q"], evidence, kind, open_end=not asked["ev"], expected=expected)


def read_locomo(name: str, data: Any) -> Iterator[Read]:
    """Yield the lines of LoCoMo (snap-research, CC BY-NC 4.0). Adversarial questions count as unanswerable."""
    for sample in data:
        conversation = str(sample["sample_id"])
        place = f"{name}, conversation {conversation}"
        known = set()
        for line in locomo.import_lines(sample):
            known.add(id_ := line["metadata"]["dia_id"])
            fields = {"actor": line["actor_id"], "role": line["role"], "thread": line["thread_id"], "seq": line["seq"]}
            at = line["created_at"]
            yield _turn(place, line["content"], turn=id_, conversation=conversation, at=at, **fields)
        for number, asked in enumerate(sample["qa"], start=1):
            evidence = [id_ for id_ in locomo.normalise_evidence(asked.get("evidence", [])) if id_ in known]
            category = int(asked["category"])
            kind = LOCOMO_KINDS.get(category, str(category))
            where = f"{place}, question {number}"
            open_end = category == ADVERSARIAL
            expected = None if open_end else asked.get("answer")
            text = str(asked["question"])
            yield _ask(where, conversation, text, evidence, kind, open_end=open_end, expected=expected)


def read_realtalk(name: str, data: Any) -> Iterator[Read]:
    """Yield the lines of one chat of REALTALK, a file `Chat_<n>_<speakers>.json`."""
    conversation = Path(name).stem
    matches = (_SESSION.fullmatch(key) for key in data)
    known = set()
    speakers = list((data.get("name") or {}).values())
    for session in sorted(int(match[1]) for match in matches if match):
        for seq, turn in enumerate(data[f"session_{session}"]):
            known.add(id_ := str(turn["dia_id"]))
            at = datetime.strptime(turn["date_time"].strip(), _REALTALK_TIME).replace(tzinfo=UTC).isoformat()
            role = "assistant" if turn["speaker"] in speakers[1:] else "user"
            fields = {"actor": turn["speaker"].strip(), "role": role, "thread": f"session_{session}", "seq": seq}
            text = str(turn.get("clean_text") or "")
            yield _turn(name, text, turn=id_, conversation=conversation, at=at, **fields)
    for number, asked in enumerate(data["qa"], start=1):
        evidence = [id_ for id_ in locomo.normalise_evidence(asked.get("evidence", [])) if id_ in known]
        where = f"{name}, question {number}"
        text = asked["question"]
        kind = asked["category"]
        expected = asked.get("answer")
        yield _ask(where, conversation, text, evidence, kind, open_end=False, expected=expected)


def _longmemeval_time(place: str, text: str) -> datetime:
    match = _LONGMEMEVAL_TIME.match(text)
    if match is None:
        raise DataError(f"{place}: {text!r} is no time such as 2023/05/20 (Sat) 02:21")
    return datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC)  # type: ignore[arg-type,misc]  # six ints


def read_longmemeval(name: str, data: Any) -> Iterator[Read]:
    """Yield the lines of LongMemEval: each question has a history of its own, with the answering turns marked.

    A question whose id ends in `_abs` has no answer.
    """
    for number, sample in enumerate(data, start=1):
        conversation = str(sample["question_id"])
        place = f"{name}, question {number} ({conversation})"
        evidence = []
        sessions = zip(sample["haystack_sessions"], sample["haystack_dates"], strict=True)
        dated = [(_longmemeval_time(place, date), turns) for turns, date in sessions]
        for session, (started, turns) in enumerate(sorted(dated, key=lambda pair: pair[0]), start=1):
            for seq, turn in enumerate(turns):
                id_ = f"{session}:{seq}"
                at = (started + timedelta(seconds=seq)).isoformat()
                fields = {"role": turn["role"], "thread": str(session), "seq": seq, "at": at}
                evidence += [id_] if turn.get("has_answer") and turn["content"].strip() else []
                yield _turn(place, turn["content"], turn=id_, conversation=conversation, **fields)
        none = conversation.endswith("_abs")
        kind = ABSTENTION if none else sample["question_type"]
        text = sample["question"]
        expected = sample.get("answer")
        where, line = _ask(place, conversation, text, evidence, kind, open_end=none, expected=expected)
        if isinstance(line, Mapping):
            asked_at = max(_longmemeval_time(place, sample["question_date"]), max(at for at, _ in dated))
            line = {**line, "at": (asked_at + timedelta(minutes=1)).isoformat()}
        yield where, line


def read_beam(name: str, data: tuple[Any, Any]) -> Iterator[Read]:
    """Yield the lines of one chat of BEAM, a folder with `chat.json` and `probing_questions/probing_questions.json`."""
    chat, questions = data
    known = set()
    at = None
    for number, batch in enumerate(chat, start=1):
        messages = [message for turn in batch["turns"] for message in turn]
        anchor = next((message["time_anchor"] for message in messages if message.get("time_anchor")), None)
        if anchor:
            at = datetime.strptime(anchor, "%B-%d-%Y").replace(tzinfo=UTC)
        for seq, message in enumerate(messages):
            known.add(id_ := str(message["id"]))
            text = _BEAM_INDEX.sub("", message["content"])
            at = at and at + BEAM_STEP
            fields = {"role": message["role"], "thread": str(number), "seq": seq} | (
                {"at": at.isoformat()} if at else {}
            )
            yield _turn(name, text, turn=id_, conversation=name, **fields)
    for kind, asked in questions.items():
        for number, one in enumerate(asked, start=1):
            evidence = [id_ for id_ in _flatten_ids(one.get("source_chat_ids")) if id_ in known]
            where = f"{name}, {kind} {number}"
            open_end = kind == ABSTENTION
            expected = next((one[key] for key in BEAM_ANSWERS if one.get(key)), None)
            yield _ask(where, name, one["question"], evidence, kind, open_end=open_end, expected=expected)


def _flatten_ids(value: Any) -> list[str]:
    """Return the ids in nested lists and objects, as BEAM has them."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [id_ for part in value for id_ in _flatten_ids(part)]
    return [] if value is None else [str(value)]
