"""The scripted model's knowledge of the prompts that read turns of turn memory."""

import re
from collections.abc import Iterator
from typing import Any

from mnema_wire.turn_limits import MAX_SPEC, MAX_SPEC_ENTRIES

from app.prompts import ctx_reconciler, turn_summary

Question = dict[str, Any]
SHAPE = {"scope": "conversation", "applies_to": ""}
_SENTENCE = re.compile(r"[^.!?]+[.!?]?")
_MEMORY = re.compile(r"^- (\S+) \(", re.MULTILINE)


def wrong_journal(question: Question) -> Iterator[str]:
    """Check the material of the reconciler: the message, the blocks of its view and the bucket cards."""
    if question.keys() != {"now", "turn_id", "user_text", "journal", "buckets"}:
        yield f"{sorted(question)}"
        return
    if not 0 < len(question["user_text"]) <= ctx_reconciler.MAX_MESSAGE:
        yield "the message is empty or too long"
    if len(question["journal"]) > ctx_reconciler.MAX_JOURNAL or "[TURN MEMORIES" not in question["journal"]:
        yield "the journal is too long or no journal"
    if not re.match(r"[A-Z][a-z]+day \d{4}-\d\d-\d\d \d\d:\d\d ", str(question["now"])):
        yield "nobody can tell when it is"
    if any(one.keys() != {"id", "card"} for one in question["buckets"]):
        yield "a bucket has no card"


def read_turn(question: Question) -> Any:
    """Return the sentences with "always", "never" and "my" as signals, and the newest turns with memories.

    The objective is the first sentence. Every bucket and turn that the journal has is named, more than are kept.
    """
    said = [sentence.strip() for sentence in _SENTENCE.findall(question["user_text"]) if sentence.strip()]
    memories = question["journal"].partition("[TURN MEMORIES")[2]
    turns = [turn_id for turn_id in _MEMORY.findall(memories) if turn_id != question["turn_id"]]
    return {
        "objective": said[0] if said else "",
        "topics": [word.lower() for word in re.findall(r"\b[a-z]{7,}\b", question["user_text"])][:3],
        "assertions": [_signal(one, "prefer") for one in said if re.search(r"\b[Aa]lways\b", one)],
        "exceptions": [_signal(one, "avoid") for one in said if re.search(r"\b[Nn]ever\b", one)],
        "facts": [_signal(one, "medium") for one in said if re.match(r"(?:My|Our|I am|I have)\b", one)],
        "turn_ids": turns,
        "memory_bucket_ids": [one["id"] for one in question["buckets"]],
        "local_memories_turn_ids": turns,
    }


def wrong_turn(question: Question) -> Iterator[str]:
    """Check the material of the summarizer: both texts and the specification."""
    if question.keys() != {"user_text", "assistant_text", "assistant_signal_spec"}:
        yield f"{sorted(question)}"
        return
    texts = question["user_text"], question["assistant_text"]
    if not any(texts) or max(map(len, texts)) > turn_summary.MAX_MESSAGE:
        yield "the turn is empty or too long"
    spec = question["assistant_signal_spec"]
    if len(spec) > (MAX_SPEC if isinstance(spec, str) else MAX_SPEC_ENTRIES):
        yield "the specification is too long"


def sum_up(question: Question) -> Any:
    """Return the user's first sentence as a summary, and a signal for each value of the specification in the answer."""
    said = _SENTENCE.findall(question["user_text"] or question["assistant_text"])
    quoted = re.sub(r'["\s]+', " ", said[0])[:100].strip(" .!?")
    spec, answer = question["assistant_signal_spec"], question["assistant_text"]
    signals = [
        {**_signal(sentence.strip(), "recommend"), "key": entry["key"], "value": value}
        for entry in ([] if isinstance(spec, str) else spec)
        for value in entry.get("values", ())
        for sentence in _SENTENCE.findall(answer)
        if value.lower() in sentence.lower()
    ]
    return {"summary": f'The user asked for "{quoted}".', "assistant_signals": signals}


def _signal(sentence: str, severity: str) -> Question:
    words = re.findall(r"[a-z]+", sentence.lower())
    key = "_".join(word for word in words if word not in {"always", "never", "my", "our"})[:40].strip("_")
    return {"key": key or "said", "value": sentence.strip(".!?"), "severity": severity, "quote": sentence, **SHAPE}
