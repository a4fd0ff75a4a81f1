"""The reading of a model's text: what is there is read, and nothing else."""

import json

import pytest

from app.prompts import ctx_reconciler, episode, fact_extraction, insights, reconcile, same_fact, summary
from app.providers.chat_models.answers import AnswerReader, build_reader

FACT = {"text": "The user keeps bees.", "category": "profile", "importance": 3, "quote": "I keep bees"}
OTHER = {"text": "The user lives in Porto.", "category": "profile", "importance": 2, "quote": "I live in Porto"}
ONE = json.dumps(FACT)
TWO = json.dumps(OTHER)
GOOD = f'{{"facts": [{ONE}, {TWO}]}}'
BOTH = [FACT, OTHER]
READER: AnswerReader[fact_extraction.Answer] = build_reader(fact_extraction.Answer)

WHOLE = {
    "plain": GOOD,
    "fence": f"```json\n{GOOD}\n```",
    "fence without its end": f"```\n{GOOD}",
    "prose around": f"Sure [as asked], here it is: {GOOD}\nI hope {{it}} helps!",
    "byte order mark": f"\ufeff{GOOD}",
    "trailing commas": f'{{"facts": [{ONE}, {TWO},],}}',
    "bare list": f"[{ONE}, {TWO}]",
    "one item a line": f"{ONE}\n{TWO}",
    "extra keys": f'{{"facts": [{ONE[:-1]}, "note": 1}}, {TWO}], "done": true}}',
    "thought": f'<think>Perhaps {{"facts": []}}?</think>\n{GOOD}',
    "thought without its opening tag": f'Perhaps {{"facts": []}}?\n</think>\n{GOOD}',
    "all in a thought": f"<think>{GOOD}",
    "number as a string": GOOD.replace("3,", '"3",'),
    "number as a fraction": GOOD.replace("3,", "3.0,"),
    "arguments of a call": f'{{"name": "answer", "arguments": {GOOD}}}',
    "JSON in a string": json.dumps(GOOD),
    "single quotes": str({"facts": BOTH}),
    "comment": f'{{"facts": [{ONE}, {TWO}] // done\n}}',
    "name in another case": GOOD.replace('"text"', '"Text"'),
    "channels": f'<|channel|>analysis<|message|>{{"facts": []}}<|end|><|channel|>final<|message|>{GOOD}',
    "remark on an empty answer": f'{GOOD}\nWithout facts it would be {{"facts": []}}.',
    "corrected draft": f'{{"facts": [{ONE}]}}\nWait, there is another:\n{GOOD}',
}
CUT = {
    "in a text": (f'{{"facts": [{ONE}, {TWO}, {{"text": "The user ow', 2),
    "in the last text": (f'{{"facts": [{ONE}, {{"text": "T", "category": "c", "importance": 1, "quote": "I ke', 1),
    "behind a field": (f'{{"facts": [{ONE}, {TWO[:-1]}', 2),
    "behind an item": (f'{{"facts": [{ONE}, {TWO}', 2),
    "behind a comma": (f'{{"facts": [{ONE}, {TWO},', 2),
    "in a bare list": (f'[{ONE}, {{"text"', 1),
    "a quote that is not escaped": (f'{{"facts": [{{"text": "The "best", "quote": "x"}}, {ONE}]}}', 1),
    "a comma that is missing": (f'{{"facts": [{ONE} {TWO}]}}', 2),
}
UNREADABLE = {
    "nothing": "",
    "prose": "I see no facts here.",
    "beginning": '{"facts": [',
    "half an item": '{"facts": [{"text": "The user',
    "items of another shape": '{"facts": ["The user keeps bees."]}',
    "another answer": '{"insights": [{"summary": "x"}]}',
    "a number of thousands of digits": f'{{"facts": [0x{"f" * 4000}]}}',
    "a thousand brackets": f'{{"facts": {"[" * 990}{"]" * 990}}}',
    "unfinished thought": '<think>Perhaps {"facts": [',
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_is_read(name: str) -> None:
    read = READER.read_answer(WHOLE[name])
    assert read.value is not None
    assert ([fact.model_dump() for fact in read.value.facts], read.is_cut, read.refused) == (BOTH, False, ())


@pytest.mark.parametrize("name", CUT)
def test_the_complete_items_of_a_cut_answer_are_read(name: str) -> None:
    text, items = CUT[name]
    read = READER.read_answer(text)
    assert read.value is not None
    assert (len(read.value.facts), read.is_cut) == (items, True)
    assert all(fact.model_dump() in BOTH for fact in read.value.facts)


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_answer_is_not_read_as_one(name: str) -> None:
    assert READER.read_answer(UNREADABLE[name]).value is None


def test_an_answer_in_the_thoughts_is_read_if_there_is_no_other() -> None:
    empty = READER.read_answer('{"facts": []}', GOOD)
    assert empty.value == fact_extraction.Answer(facts=[])
    assert READER.read_answer("", GOOD).items == 2


def test_an_invalid_item_does_not_cost_the_others() -> None:
    read = READER.read_answer(f'{{"facts": [{{"text": 1}}, {ONE}, {ONE.replace("3", "9")}]}}')
    assert read.value is not None
    assert ([fact.text for fact in read.value.facts], read.refused) == ([FACT["text"]], ("invalid_item",) * 2)
    assert not read.is_cut


@pytest.mark.parametrize("half", [r"\ud800", r"\udc00\ud800", "\ud800"], ids=["escape", "two escapes", "raw"])
@pytest.mark.parametrize("end", ["", ",}"], ids=["valid", "tolerant"])
def test_half_a_character_becomes_the_replacement_character(half: str, end: str) -> None:
    text = f'{{"facts": [{{"text": "Bees{half}", "category": "c{half}", "importance": 3, "quote": "bees"}}]{end or "}"}'
    read = READER.read_answer(text)
    assert read.value is not None
    [found] = read.value.facts
    assert found.text.rstrip("\ufffd") == "Bees"
    assert "\ufffd" in found.category
    assert read.value.model_dump_json()


def test_choices_and_missing_lists_of_the_other_prompts() -> None:
    verdicts = build_reader(same_fact.Answer).read_answer('{"verdicts": [{"id": "0", "verdict": "New value"}]}')
    assert verdicts.value is not None
    assert (verdicts.value.verdicts[0].id, verdicts.value.verdicts[0].verdict) == (0, "new_value")
    one = build_reader(episode.Answer).read_answer('{"text": "They met.", "importance": 2}')
    assert one.value is not None
    assert one.value.episodes[0].tags == []
    said = build_reader(summary.Answer).read_answer('{"summary": "They met."')
    assert said.value == summary.Answer(summary="They met.")
    assert build_reader(summary.Answer).read_answer('{"summary": "They met').value is None
    sure = build_reader(insights.Answer).read_answer(
        '{"insights": [{"summary": "s", "tags": "a", "importance": 1, "confidence": "0.8"}]}'
    )
    assert sure.value is not None
    assert (sure.value.insights[0].tags, sure.value.insights[0].confidence) == (["a"], 0.8)
    turn = build_reader(ctx_reconciler.Answer).read_answer('{"objective": "To book a table.", "topics": ["table"], "fa')
    assert turn.value is not None
    assert (turn.value.objective, turn.value.topics, turn.is_cut) == ("To book a table.", [], True)


def test_a_null_of_any_spelling_is_one() -> None:
    read = build_reader(reconcile.Answer).read_answer(
        '{"memories": [{"id": 0, "event": "none", "fact": "null"}], "facts": [{"fact": 0, "event": "Add"}]}'
    )
    assert read.value is not None
    assert (read.value.memories[0].fact, read.value.memories[0].text) == (None, None)
    assert (read.value.memories[0].event, read.value.facts[0].event) == ("NONE", "ADD")
