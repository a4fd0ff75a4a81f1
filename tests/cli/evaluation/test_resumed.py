"""A whole run of mnema eval with the scripted model, as docs/evaluation.md shows it: killed -9, and resumed."""

import asyncio
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.child_program import run_program
from tests.cli.evaluation.page import OWN, example, missing_lines
from tests.fake_llm import FakeLlm, Fault, fake_llm
from tests.fake_llm.evaluation import answer_question, judge_answer

PROGRAM = Path(sys.executable).with_name("mnema")
BEFORE_THE_KILL = 7
"""The prompts that are answered before the kill: some questions are judged, others not."""


class Evaluations:
    """Evaluations as the page shows one, each with its own cache. `shown` has the lines that the page shows."""

    def __init__(self, llm: FakeLlm, folder: Path) -> None:
        self._llm = llm
        self._folder = folder
        self._options, self.shown = example(2)
        self._env = os.environ | {"LLM_BASE_URL": llm.base_url, "LLM_MODEL": "scripted"}

    def _command(self, cache: str, *options: str) -> list[str]:
        return [str(PROGRAM), "eval", str(OWN), *self._options, "--cache", str(self._folder / cache), *options]

    def report_of(self, cache: str) -> Path:
        """Return the file of the report of the run with this cache."""
        return self._folder / f"{cache}.json"

    async def finish_run(self, cache: str, *options: str) -> tuple[dict[str, Any], str]:
        """Run an evaluation to its end. Return its report and what it printed."""
        file = self.report_of(cache)
        ended = await run_program(*self._command(cache, "--json", str(file), *options), env=self._env)
        assert ended.code == 0, ended.errors
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return report, ended.out

    async def kill_run(self, cache: str) -> None:
        """Start an evaluation, and kill it while the model holds back the next answer."""
        answered = itertools.count(1)

        def answer_or_hang(question: dict[str, Any]) -> Any:
            if next(answered) == BEFORE_THE_KILL:
                self._llm.broken = Fault.HANG  # from the next prompt on
            return (answer_question if "memories" in question else judge_answer)(question)

        self._llm.always = answer_or_hang
        process = await asyncio.create_subprocess_exec(*self._command(cache, "--parallel", "1"), env=self._env)
        try:
            async with asyncio.timeout(300):
                await self._llm.hanging.wait()
        finally:
            process.kill()
            await process.wait()
        self._llm.always = self._llm.broken = None


@pytest.mark.long
async def test_a_killed_run_goes_on_and_pays_for_no_answer_twice(tmp_path: Path) -> None:
    async with fake_llm() as llm:
        evaluations = Evaluations(llm, tmp_path)
        whole, printed = await evaluations.finish_run("whole")
        assert missing_lines(printed, evaluations.shown) == []
        calls = [json.dumps(one.body["messages"]) for one in llm.asked]
        assert len(set(calls)) == len(calls) == sum(model["calls"] for model in whole["models"])
        llm.asked.clear()
        await evaluations.kill_run("killed")
        assert len(llm.asked) == BEFORE_THE_KILL + 1
        unanswered = json.dumps(llm.asked.pop().body["messages"])
        resumed, _ = await evaluations.finish_run("killed", "--against", str(evaluations.report_of("whole")))
        again = [json.dumps(one.body["messages"]) for one in llm.asked]
        assert unanswered in again
        assert sorted(again) == sorted(calls)
        assert sum(model["cached"] for model in resumed["models"]) == BEFORE_THE_KILL
        assert [{**model, "cached": 0} for model in resumed["models"]] == whole["models"]
        figures = whole["runs"]["shipped"]["all"]
        assert (figures["right"]["questions"], figures["abstained"]["questions"]) == (8, 2)
        for name in ("right", "right_held", "abstained", "abstained_answerable", "unreadable", "unreadable_verdict"):
            assert resumed["runs"]["shipped"]["all"][name] == figures[name]
