"""The stages of mnema eval in which a model answers and a model judges, with the scripted model."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.domain.errors import ConfigError
from app.domain.outages import ChatModelUnavailable
from app.domain.rendering.lines import plain_line
from app.providers.chat_models import ChatModelSettings, build_chat_model
from bench.evaluation.asking import Asked, Row
from bench.evaluation.command import JUDGE_KEY, build_stages
from bench.evaluation.data import Conversation, DataError, DataSet, Question
from bench.evaluation.model_calls import TokenLimit, TokensUsedUp
from bench.evaluation.prompts import (
    ANSWER_VERSION,
    JUDGE_VERSION,
    MAX_ANSWER_TOKENS,
    MAX_TEXT,
    answer_prompt,
    judge_prompt,
)
from bench.evaluation.stages import ModelStages, StageReport, answer_values
from tests.fake_llm import FakeLlm, Fault, fake_llm
from tests.fake_llm.endpoints import BEHAVIOURS

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
MEMORIES = "[activity] The ferry to Texel leaves at ten past seven.\n[tasks] Omar must renew his passport."


def ask(text: str, expected: str | None = None, evidence: int = 1, **values: float) -> Asked:
    """Return a question whose answer has the memories."""
    question = Question(1, text, "question", frozenset(map(str, range(evidence))), answer=expected)
    return Asked(Row("c", 1, "question", evidence, values), question, AT, plain_line(MEMORIES))


FERRY = ask("When does the ferry to Texel leave?", "at ten past seven", all_answer=1.0)
PASSPORT = ask("Must Omar renew his passport?", "no", all_answer=0.0)
DENTIST = ask("Who is the dentist?", evidence=0)
TALL = ask("How tall is Omar?", evidence=0)
SALE = ask("Is the ferry to Texel for sale?", evidence=0)
OPEN = ask("Does the ferry to Texel leave?")
ALL = (FERRY, PASSPORT, DENTIST, TALL, SALE, OPEN, FERRY)


@pytest.fixture
async def llm() -> AsyncIterator[FakeLlm]:
    async with fake_llm() as running:
        yield running


@pytest.fixture
def stages(llm: FakeLlm, tmp_path: Path) -> ModelStages:
    settings = ChatModelSettings(kind="openai", base_url=llm.base_url, model="scripted", api_key="secret")
    return ModelStages(settings, settings, tmp_path / "cache", None, 4)


async def run(stages: ModelStages, *asked: Asked) -> StageReport:
    return await stages.run_stages({"shipped": asked}, lambda line: None)


def added(report: StageReport) -> list[dict[str, float]]:
    """Return the values that the stages added, by question."""
    return [{k: v for k, v in row.values.items() if k != "all_answer"} for row in report.rows["shipped"]]


async def test_answers_are_judged_and_abstentions_are_not(llm: FakeLlm, stages: ModelStages) -> None:
    report = await run(stages, *ALL)
    read, judged = {"unreadable": 0.0}, {"unreadable": 0.0, "unreadable_verdict": 0.0}
    assert added(report) == [
        {**judged, "abstained": 0, "right": 1, "right_held": 1},
        {**judged, "abstained": 0, "right": 0},
        {**read, "abstained": 1},
        {**judged, "abstained": 1},
        {**judged, "abstained": 0},
        {**read, "abstained": 0},
        {**judged, "abstained": 0, "right": 1, "right_held": 1},
    ]
    assert report.notes == ["1 questions without an expected answer are not judged"]
    assert not report.failed
    assert max(Counter(str(one.question) for one in llm.asked).values()) == 1  # FERRY is asked twice
    answer, judge = report.models
    assert (answer["calls"], judge["calls"], answer["cached"], judge["cached"]) == (6, 4, 0, 0)
    assert answer["input_tokens"] > answer["output_tokens"] > 0


async def test_without_a_judge_only_the_model_says_that_it_abstains(llm: FakeLlm, stages: ModelStages) -> None:
    report = await run(replace(stages, judge=None), FERRY, TALL, DENTIST)
    assert [values["abstained"] for values in added(report)] == [0, 0, 1]
    assert not any("right" in values for values in added(report))
    assert [model["stage"] for model in report.models] == ["answer"]


async def test_a_second_run_pays_nothing_and_reports_the_same_costs(llm: FakeLlm, stages: ModelStages) -> None:
    first = await run(stages, *ALL)
    asked = len(llm.asked)
    again = await run(stages, *ALL)
    assert len(llm.asked) == asked
    assert again.rows == first.rows
    assert [{**model, "cached": 0} for model in again.models] == first.models
    assert [model["cached"] for model in again.models] == [6, 4]
    other = replace(stages.answerer, model="another")
    await run(replace(stages, answerer=other), FERRY)
    assert len(llm.asked) == asked + 1  # its answer is the same, and so is the verdict


async def test_the_limit_of_tokens_ends_the_stages_and_another_run_goes_on(llm: FakeLlm, stages: ModelStages) -> None:
    whole = await run(replace(stages, folder=stages.folder / "whole"), *ALL)
    calls = len(llm.asked)
    report = await run(replace(stages, max_tokens=2_000), *ALL)
    assert report.notes[0].startswith("shipped: ")
    assert report.notes[0].endswith(" of 7 questions not answered: the limit of 2000 tokens is reached")
    assert not report.failed
    paid = sum(model["input_tokens"] + model["output_tokens"] for model in report.models)
    most_of_a_call = 1_000
    assert 2_000 - most_of_a_call < paid <= 2_000  # a call waits for open ones before the limit counts as reached
    assert {} in added(report)
    rest = await run(stages, *ALL)
    assert rest.rows == whole.rows
    assert [{**model, "cached": 0} for model in rest.models] == whole.models
    assert len(llm.asked) == 2 * calls


async def test_unreadable_answers_count_as_such_and_are_not_paid_for_again(llm: FakeLlm, stages: ModelStages) -> None:
    stages = replace(stages, parallel=1)
    llm.faults.extend([Fault.PROSE, Fault.PROSE])
    for cached in (0, 2):
        report = await run(stages, FERRY)
        assert added(report) == [{"unreadable": 1, "abstained": 0, "right": 0, "right_held": 0}]
        assert (report.models[0]["calls"], report.models[0]["cached"]) == (2, cached)
    assert len(llm.asked) == 2
    llm.scripts.extend([lambda _: {"answer": "At dawn."}, *[lambda _: {"verdict": "perhaps"}] * 2])
    assert added(await run(stages, SALE)) == [{"unreadable": 0, "unreadable_verdict": 1}]


WORST = {
    "nul": "\x00" * (1 << 16),
    "joined": "\u200d\u0301" * (1 << 16),
    "json": '{"' * (1 << 16),
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("text", WORST.values(), ids=list(WORST))
async def test_the_worst_answers_are_judged_or_unreadable(llm: FakeLlm, stages: ModelStages, text: str) -> None:
    calls = 1 if text == WORST["surrogate"] else 2  # an unreadable answer is asked for again
    llm.scripts.extend([lambda _: {"answer": text}] * calls)
    for _ in range(2):
        [values] = added(await run(stages, FERRY))
        assert values["right"] == 0
    assert [one.version for one in llm.asked].count(ANSWER_VERSION) == calls


async def test_a_model_that_thinks_is_asked_again_with_more_tokens(llm: FakeLlm, stages: ModelStages) -> None:
    llm.behaviour = next(one for one in BEHAVIOURS if one.name == "thoughts take every token of a small limit")
    stages = replace(stages, judge=None)
    first, again = [await run(stages, FERRY) for _ in range(2)]
    assert first.rows == again.rows
    assert added(first) == [{"unreadable": 0, "abstained": 0}]
    assert [request["max_tokens"] for request in llm.requests] == [MAX_ANSWER_TOKENS, MAX_ANSWER_TOKENS + 2000]
    assert [{**model, "cached": 0} for model in again.models] == first.models
    assert first.models[0]["calls"] == again.models[0]["cached"] == 2


async def test_the_limit_of_tokens_counts_those_for_thoughts(llm: FakeLlm, stages: ModelStages) -> None:
    llm.behaviour = next(one for one in BEHAVIOURS if one.name == "thoughts take every token of a small limit")
    report = await run(replace(stages, judge=None, max_tokens=2_000), FERRY)
    assert report.notes[0].endswith("1 of 1 questions not answered: the limit of 2000 tokens is reached")
    assert len(llm.requests) == report.models[0]["calls"] == 1  # the second call could take more than 2000


async def test_a_reservation_that_waits_takes_what_a_call_may_use_by_then() -> None:
    limit, needed = TokenLimit(100), 60
    held = await limit.reserve_tokens(lambda: needed)
    waiting = asyncio.create_task(limit.reserve_tokens(lambda: needed))
    await asyncio.sleep(0)
    needed = 95
    await limit.settle_call(held, 10)
    with pytest.raises(TokensUsedUp):
        await waiting


async def test_a_refused_prompt_is_unreadable_and_asked_again(llm: FakeLlm, stages: ModelStages) -> None:
    llm.faults.append(Fault.REFUSED)
    [first] = added(await run(stages, FERRY))
    [second] = added(await run(stages, FERRY))
    assert (first["unreadable"], second["unreadable"]) == (1, 0)


async def test_an_outage_ends_the_stages_and_keeps_the_rows(llm: FakeLlm, stages: ModelStages) -> None:
    llm.broken = Fault.UNAUTHORISED
    report = await run(stages, *ALL)
    assert report.failed
    assert report.rows["shipped"] == [one.row for one in ALL]
    assert report.notes[0] == "shipped: 7 of 7 questions not answered: The chat model's endpoint answered HTTP 401."


async def test_the_calls_at_the_same_time_are_bounded(llm: FakeLlm, stages: ModelStages) -> None:
    llm.broken = Fault.HANG
    running = asyncio.create_task(run(replace(stages, parallel=2), *(ask(f"Question {n}?") for n in range(9))))
    await llm.hanging.wait()
    await asyncio.sleep(0.1)  # time for a third call, if there were one
    assert 1 <= len(llm.requests) <= 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_damaged_file_of_the_cache_is_asked_again(llm: FakeLlm, stages: ModelStages) -> None:
    await run(stages, FERRY)
    files = sorted(stages.folder.iterdir())
    for file, content in zip(files, ('{"prompt": "eval', '{"value": {"verdict": "?"}}'), strict=True):
        file.write_text(content, encoding="utf-8")
    report = await run(stages, FERRY)
    assert [(model["calls"], model["cached"]) for model in report.models] == [(1, 0), (1, 0)]
    assert stages.folder.stat().st_mode & 0o777 == 0o700


async def test_a_cache_that_cannot_be_written_ends_the_stages(stages: ModelStages, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    report = await run(replace(stages, folder=tmp_path / "file" / "cache"), FERRY)
    assert report.failed
    assert "Not a directory" in report.notes[0]


async def test_models_are_checked_before_anything_is_stored(llm: FakeLlm, stages: ModelStages) -> None:
    data = DataSet([Conversation("c", [], [OPEN.question])])
    with pytest.raises(DataError, match="--judge: no question has an expected answer"):
        await stages.check_models(data)
    await replace(stages, judge=None).check_models(data)
    llm.broken = Fault.UNAVAILABLE
    with pytest.raises(ChatModelUnavailable, match="HTTP 503"):
        await stages.check_models(DataSet([Conversation("c", [], [FERRY.question])]))


def test_the_key_of_the_settings_goes_to_its_endpoint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"URL": "http://127.0.0.1:9/v1", "MODEL": "small", "API_KEY": "secret"}.items():
        monkeypatch.setenv(f"LLM_{name.replace('URL', 'BASE_URL')}", value)
    same = build_stages(True, "large", "", None, None, 4)
    assert same.name_models() == {"answer": "small (eval_answer.v1)", "judge": f"large ({JUDGE_VERSION})"}
    assert same.judge is not None
    assert same.judge.api_key == "secret"
    for key in ("", "other"):
        monkeypatch.setenv(JUDGE_KEY, key)
        other = build_stages(True, "", "http://127.0.0.1:10/v1", None, None, 4).judge
        assert other is not None
        assert (other.base_url, other.model, other.api_key) == ("http://127.0.0.1:10/v1", "small", key)


async def test_secrets_in_a_file_or_in_headers_do_not_go_to_another_judge(
    llm: FakeLlm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("secret")
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LLM_MODEL", "small")
    monkeypatch.setenv("MNEMA_LLM_API_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("MNEMA_LLM_HEADERS", '{"x-api-key": "secret"}')
    monkeypatch.setenv("MNEMA_LLM_EXTRA_BODY", '{"project": "secret"}')
    monkeypatch.setenv(JUDGE_KEY, "other")
    judge = build_stages(True, "", llm.base_url, None, None, 4).judge
    assert judge is not None
    model = build_chat_model(judge)
    assert (await model.generate_reply(judge_prompt("Who?", "Ada", "Ada", answerable=True))).value is not None
    await model.close()
    assert llm.keys == {"Bearer other"}
    assert "secret" not in str(llm.requests)
    assert judge.headers == {}


def test_stages_without_a_chat_model_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="need a chat model: set MNEMA_LLM"):
        build_stages(True, "", "", None, None, 4)


def test_a_verdict_counts_by_the_sort_of_question() -> None:
    assert answer_values(DENTIST, "right", judged=True) == {"abstained": 1}  # it denies the premise
    assert answer_values(DENTIST, "wrong", judged=True) == {"abstained": 0}
    assert answer_values(PASSPORT, "abstained", judged=True) == {"abstained": 1, "right": 0}
    assert answer_values(PASSPORT, "abstained", judged=False) == {"abstained": 1}


def test_prompts_bound_their_texts() -> None:
    worst = "\u200d́ \x00\n" * (1 << 18)
    assert len(answer_prompt(worst, AT, plain_line("x")).question.text) < 10 * MAX_TEXT
    assert len(judge_prompt(worst, worst, worst, answerable=True).question.text) < 30 * MAX_TEXT
