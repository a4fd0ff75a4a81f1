"""The scripted model's knowledge of each prompt: its required parts, and a good answer."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.prompts import ctx_reconciler, episode, insights, probe, reconcile, same_fact, summary, turn_summary, workflow
from app.prompts import fact_extraction as multi_fact
from app.providers.chat_models.request_form import THINKING_TOKENS
from bench.evaluation import prompts as eval_prompts
from tests.fake_llm import evaluation, reflections, turns

Question = dict[str, Any]
Script = Callable[[Question], Any]
"""A function from a question to its answer: JSON, or a text, which is sent unchanged."""


@dataclass(frozen=True)
class Known:
    """A prompt: its rules word for word, its output limit, a check of its question, and an answer."""

    rules: str
    max_tokens: int
    wrong: Callable[[Question], Iterator[str]]
    answer: Script


def words(text: str) -> set[str]:
    """Return the words in lower case, without the shortest."""
    return set(re.findall(r"\w+", text.lower())) - {"a", "an", "the", "is", "are", "has", "of", "user"}


def wrong_pairs(question: Question) -> Iterator[str]:
    """Check pairs: ids from 0, two texts each, and no more pairs than the limit."""
    pairs = question.get("pairs", [])
    if question.keys() != {"pairs"} or not 2 <= len(pairs) <= same_fact.MAX_PAIRS + 1:
        yield f"{len(pairs)} pairs, {sorted(question)}"
    if [pair.get("id") for pair in pairs] != list(range(len(pairs))):
        yield "ids are not 0, 1, …"
    for pair in pairs:
        if pair.keys() != {"id", "older", "newer"} or not all(
            0 < len(pair[side]) <= 1000 for side in ("older", "newer")
        ):
            yield f"a pair is {sorted(pair)}"
    if not any((pair.get("older"), pair.get("newer")) in same_fact.CONTROLS for pair in pairs):
        yield "there is no control"


def compare(question: Question) -> Any:
    """Answer "same" if all words of the shorter text but one are in the longer text; other numbers are a new value."""
    verdicts = []
    for pair in question["pairs"]:
        older, newer = words(pair["older"]), words(pair["newer"])
        numbers = [{word for word in side if word.isdigit()} for side in (older, newer)]
        near = len(older & newer) >= min(len(older), len(newer)) - 1 > 1
        verdict = ("same" if numbers[0] == numbers[1] else "new_value") if near else "different"
        verdicts.append({"id": pair["id"], "verdict": verdict})
    return {"verdicts": verdicts}


def wrong_message(question: Question) -> Iterator[str]:
    """Check a user's message, its time and the categories for facts. It must not contain text of Mnema's own."""
    if question.keys() != {"date", "categories", "message"} or not question.get("categories"):
        yield f"{sorted(question)}"
    message = question.get("message", "")
    if not 0 < len(message) <= multi_fact.MAX_MESSAGE or "Memory updates since rev" in message:
        yield "the message is empty, too long or has what Mnema put there"
    if not re.fullmatch(r"[A-Z][a-z]+day \d{4}-\d\d-\d\d", str(question.get("date"))):
        yield "nobody can tell when it was said"


OF_CATEGORY = {
    "preferences": {"prefer", "like", "love", "hate"},
    "goals": {"want", "plan", "hope", "goal"},
    "relationships": {"daughter", "son", "partner", "sister", "brother", "friend"},
}


def extract(question: Question) -> Any:
    """Return the sentences that begin with "I" or "My", in the third person."""
    facts = []
    for sentence in re.split(r"(?<=[.!?])\s+", question["message"]):
        text = re.sub(r"^I am ", "The user is ", sentence)
        text = re.sub(r"^I have ", "The user has ", text)
        text = re.sub(r"^I (\w+)", lambda match: f"The user {match[1]}s", text)
        text = re.sub(r"^My ", "The user's ", text).replace(" my ", " the user's ")
        if text != sentence and not text.endswith("?"):
            said = words(sentence)
            found = (name for name, some in OF_CATEGORY.items() if some & said and name in question["categories"])
            category = next(found, next(iter(question["categories"])))
            facts.append({"text": text, "category": category, "importance": 3, "quote": sentence})
    return {"facts": facts[:5]}


def wrong_notes(question: Question) -> Iterator[str]:
    """Check facts and memories: numbered from 0, without duplicates, and only memories of the product."""
    if question.keys() != {"facts", "memories"}:
        yield f"{sorted(question)}"
        return
    for name, number, most in (("facts", "fact", 5), ("memories", "id", 51)):
        some = question[name]
        if [one.get(number) for one in some] != list(range(len(some))) or not 1 <= len(some) <= most:
            yield f"{name} are not 0, 1, …"
        if any(one.keys() != {number, "text"} or not 0 < len(one["text"]) <= 1000 for one in some):
            yield f"{name} are not numbers and texts"
    texts = [one.get("text") for one in question["memories"]]
    if sum(text in reconcile.CONTROLS for text in texts) != 1:
        yield "there is no control, or more than one"


DENYING = {"not", "no", "longer", "never", "does", "anymore"}


def judge(question: Question) -> Any:
    """Decide on facts: DELETE for opposite words, UPDATE for other numbers alone, NONE for a text that is known."""
    memories = [{"id": one["id"], "event": "NONE", "fact": None, "text": None} for one in question["memories"]]
    facts = [{"fact": one["fact"], "event": "ADD", "memory": None} for one in question["facts"]]
    for one in question["memories"]:
        for fact in question["facts"]:
            old, new = words(one["text"]), words(fact["text"])
            if new & {"longer", "not"} and len(new - DENYING - old) <= 1 and not old & {"longer", "not"}:
                memories[one["id"]] |= {"event": "DELETE", "fact": fact["fact"]}
            elif new <= old:
                facts[fact["fact"]] = {"fact": fact["fact"], "event": "NONE", "memory": one["id"]}
            elif {word for word in old ^ new if not word.isdigit()} == set():
                memories[one["id"]] |= {"event": "UPDATE", "fact": fact["fact"]}
    return {"memories": memories, "facts": facts}


def wrong_number(question: Question) -> Iterator[str]:
    """Check for one number and nothing else."""
    if question.keys() != {"number"}:
        yield f"{sorted(question)}"


def wrong_workflow(question: Question) -> Iterator[str]:
    """Check for one message and nothing else."""
    if question.keys() != {"message"} or not 0 < len(question["message"]) <= workflow.MAX_MESSAGE:
        yield f"{sorted(question)}"


def order_steps(question: Question) -> Any:
    """Return the numbered lines of the message as a sure workflow, if its first line says how something is done."""
    title, *lines = question["message"].splitlines()
    steps = [line.split(". ", 1)[1] for line in lines if re.match(r"\d+\. ", line)]
    if not steps or "how we" not in title.lower():
        return {"procedures": []}
    found = {"title": title.rstrip(":."), "steps": steps, "tags": ["work"], "importance": 3, "confidence": 0.9}
    return {"procedures": [found]}


KNOWN = {
    ctx_reconciler.VERSION: Known(
        ctx_reconciler.RULES, ctx_reconciler.MAX_TOKENS, turns.wrong_journal, turns.read_turn
    ),
    turn_summary.VERSION: Known(turn_summary.RULES, turn_summary.MAX_TOKENS, turns.wrong_turn, turns.sum_up),
    probe.VERSION: Known(probe.RULES, probe.MAX_TOKENS, wrong_number, dict),
    episode.VERSION: Known(episode.RULES, episode.MAX_TOKENS, reflections.wrong_episode, reflections.capture),
    insights.VERSION: Known(insights.RULES, insights.MAX_TOKENS, reflections.wrong_material, reflections.guess),
    summary.VERSION: Known(summary.RULES, 8000, reflections.wrong_summary, reflections.summarise),
    reconcile.VERSION: Known(
        reconcile.RULES, 5 * reconcile.TOKENS_A_FACT + 51 * reconcile.TOKENS_A_MEMORY, wrong_notes, judge
    ),
    workflow.VERSION: Known(workflow.RULES, workflow.MAX_TOKENS, wrong_workflow, order_steps),
    multi_fact.VERSION: Known(multi_fact.RULES, multi_fact.MAX_TOKENS, wrong_message, extract),
    eval_prompts.ANSWER_VERSION: Known(
        eval_prompts.ANSWER_RULES,
        eval_prompts.MAX_ANSWER_TOKENS,
        evaluation.wrong_memories,
        evaluation.answer_question,
    ),
    eval_prompts.JUDGE_VERSION: Known(
        eval_prompts.JUDGE_RULES, eval_prompts.MAX_JUDGE_TOKENS, evaluation.wrong_comparison, evaluation.judge_answer
    ),
    same_fact.VERSION: Known(same_fact.RULES, 30 * (same_fact.MAX_PAIRS + 1) + 20, wrong_pairs, compare),
}


def split_request(body: dict[str, Any]) -> tuple[str, str]:
    """Return the rules and the question of a request. They are one message if the endpoint has no system role."""
    texts = [str(message["content"]) for message in body["messages"]]
    if len(texts) == 2:
        return texts[0], texts[1]
    rules, _, question = texts[0].rpartition("\n\n{")
    return rules, "{" + question


def wrong(body: dict[str, Any], version: str) -> Iterator[str]:
    """Return every error in a request for this prompt."""
    known = KNOWN.get(version)
    if known is None:
        yield f"nobody knows {version}"
        return
    rules, user = split_request(body)
    told = rules.removeprefix(known.rules)
    if not rules.startswith(known.rules) or not (not told or told.startswith("\nAnswer with nothing but JSON of this")):
        yield "the rules are not the prompt's own, word for word"
    roles = [message["role"] for message in body["messages"]]
    if roles not in (["system", "user"], ["user"]):
        yield f"messages of {roles}"
    most = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    if body.get("temperature", 0) != 0 or most - max(THINKING_TOKENS) > known.max_tokens or most <= 0:
        yield f"temperature {body.get('temperature')}, max_tokens {body.get('max_tokens')}"
    yield from wrong_format(body, is_told=bool(told))
    yield from known.wrong(question_of(user))


def wrong_format(body: dict[str, Any], *, is_told: bool) -> Iterator[str]:
    """Check that a request asks for JSON of a strict schema, or tells the schema in the rules."""
    match (body.get("response_format") or {}).get("type"):
        case "json_schema":
            schema = body["response_format"]["json_schema"]
            if not schema.get("strict") or schema["schema"].get("additionalProperties") is not False:
                yield "no strict JSON schema"
        case _ if "tools" in body:
            if body["tools"][0]["function"]["parameters"].get("additionalProperties") is not False:
                yield "no strict JSON schema of a tool"
        case _ if not is_told:
            yield "no JSON schema"


def question_of(user: str) -> Question:
    """Return the JSON at the start of a question; a complaint about the last answer may follow it."""
    found: Question = json.JSONDecoder().raw_decode(user)[0]
    return found
