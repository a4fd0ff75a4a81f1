"""The optional stages: a model answers each question from the text of the query's answer, and a model judges that."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from app.domain.outages import ChatModelUnavailable
from app.providers.chat_models import ChatModelSettings, build_chat_model
from bench.evaluation.asking import Asked, Row, Values
from bench.evaluation.data import DataError, DataSet
from bench.evaluation.figures import SEED
from bench.evaluation.model_calls import AnswerCache, CachedModel, TokenLimit, TokensUsedUp
from bench.evaluation.prompts import ANSWER_VERSION, JUDGE_VERSION, Verdict, answer_prompt, judge_prompt

TELL_EVERY: Final = 100
"""Questions between two lines about the progress."""


@dataclass(slots=True)
class StageReport:
    """The results of the stages: rows with the new values, the models with their costs, and lines for the reader.

    `failed` is True if a model did not answer or the cache could not be written.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    models: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ModelStages:
    """The stages with their models, the folder of the cache, the limit of tokens and the calls at the same time.

    `judge` is None without a judge. `max_tokens` is None without a limit.
    """

    answerer: ChatModelSettings
    judge: ChatModelSettings | None
    folder: Path
    max_tokens: int | None
    parallel: int

    def name_models(self) -> dict[str, str]:
        """Return the models and the versions of their prompts by stage."""
        names = {"answer": f"{self.answerer.model} ({ANSWER_VERSION})"}
        return names | ({"judge": f"{self.judge.model} ({JUDGE_VERSION})"} if self.judge is not None else {})

    async def check_models(self, data: DataSet) -> None:
        """Check before anything is stored that the models can be reached, and that a judge has something to judge.

        Raise ConfigError, ChatModelUnavailable or DataError.
        """
        questions = [question for one in data.conversations for question in one.questions]
        if self.judge is not None and all(one.evidence and one.answer is None for one in questions):
            raise DataError("--judge: no question has an expected answer, the field `answer` of docs/evaluation.md")
        async with self._open_models() as (answerer, judge):
            await answerer.check_health()
            if judge is not None:
                await judge.check_health()

    async def run_stages(self, runs: Mapping[str, Sequence[Asked]], say: Callable[[str], None]) -> StageReport:
        """Run the stages over the questions of each run until their end, the limit of tokens or an outage."""
        report = StageReport()
        async with self._open_models() as (answerer, judge):
            runner = StageRunner(answerer, judge, self.parallel, say)
            for name, asked in runs.items():
                rows = await runner.measure_all(asked)
                report.rows[name] = [row or one.row for row, one in zip(rows, asked, strict=True)]
                if missing := rows.count(None):
                    report.notes.append(f"{name}: {missing} of {len(rows)} questions not answered: {runner.ended}")
            report.failed = not isinstance(runner.ended, TokensUsedUp | None)
            report.models = list(_describe_models(answerer, judge))
        unjudged = sum(one.row.is_answerable and one.question.answer is None for one in next(iter(runs.values())))
        if judge is not None and unjudged:
            report.notes.append(f"{unjudged} questions without an expected answer are not judged")
        return report

    @asynccontextmanager
    async def _open_models(self) -> AsyncIterator[tuple[CachedModel, CachedModel | None]]:
        cache = AnswerCache(self.folder)
        limit = TokenLimit(self.max_tokens)
        async with AsyncExitStack() as stack:
            models = []
            for settings in filter(None, (self.answerer, self.judge)):
                model = CachedModel(build_chat_model(settings), settings.base_url, cache, limit)
                stack.push_async_callback(model.close)
                models.append(model)
            yield models[0], models[1] if self.judge is not None else None


class StageRunner:
    """A runner of the stages over one run's questions, several at a time."""

    def __init__(
        self, answerer: CachedModel, judge: CachedModel | None, parallel: int, say: Callable[[str], None]
    ) -> None:
        self._answerer = answerer
        self._judge = judge
        self._parallel = parallel
        self._say = say
        self._answered = 0
        self.ended: Exception | None = None

    async def measure_all(self, asked: Sequence[Asked]) -> list[Row | None]:
        """Return the rows with the values of the stages, in order; None for those not asked because the stages ended.

        The questions are asked in random order, with a fixed seed: an ended run has a fair sample of them.
        """
        found: list[Row | None] = [None] * len(asked)
        order = list(range(len(asked)))
        random.Random(SEED).shuffle(order)
        places = iter(order)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._measure_next(places, asked, found))
        return found

    async def _measure_next(self, places: Iterator[int], asked: Sequence[Asked], found: list[Row | None]) -> None:
        for place in places:
            if self.ended is not None:
                return
            try:
                values = await self._measure_question(asked[place])
            except (TokensUsedUp, ChatModelUnavailable, OSError) as error:
                self.ended = self.ended or error
                return
            row = asked[place].row
            found[place] = replace(row, values=row.values | values)
            self._answered += 1
            if self._answered % TELL_EVERY == 0:
                self._say(f"{self._answered} questions answered")

    async def _measure_question(self, one: Asked) -> Values:
        reply = await self._answerer.ask_model(answer_prompt(one.question.text, one.at, one.text))
        judged = self._judge is not None
        if reply is None:
            return {"unreadable": 1.0} | answer_values(one, "wrong", judged=judged)
        values = {"unreadable": 0.0}
        if reply.answer is None or not reply.answer.strip():
            return values | answer_values(one, "abstained", judged=judged)
        if self._judge is None or (one.row.is_answerable and one.question.answer is None):
            return values | {"abstained": 0.0}
        expected, answerable = one.question.answer, one.row.is_answerable
        prompt = judge_prompt(one.question.text, reply.answer, expected, answerable=answerable)
        judgement = await self._judge.ask_model(prompt)
        if judgement is None:
            return values | {"unreadable_verdict": 1.0}
        return values | {"unreadable_verdict": 0.0} | answer_values(one, judgement.verdict, judged=True)


def answer_values(one: Asked, verdict: Verdict, *, judged: bool) -> Values:
    """Return the values of a question whose answer has this verdict. `judged`: there is a judge.

    To deny the premise of an unanswerable question, as its expected answer does, is to abstain.
    """
    if not one.row.is_answerable:
        return {"abstained": float(verdict != "wrong")}
    values = {"abstained": float(verdict == "abstained")}
    if judged and one.question.answer is not None:
        values["right"] = float(verdict == "right")
        if one.row.values.get("all_answer"):
            values["right_held"] = values["right"]
    return values


def _describe_models(answerer: CachedModel, judge: CachedModel | None) -> Iterator[Mapping[str, Any]]:
    yield {"stage": "answer", "model": answerer.name, "prompt": ANSWER_VERSION, **answerer.costs.as_json()}
    if judge is not None:
        yield {"stage": "judge", "model": judge.name, "prompt": JUDGE_VERSION, **judge.costs.as_json()}
