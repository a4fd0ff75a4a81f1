"""The example runs as a reader runs it, with a scripted model behind a real server."""

import os
import re
import sys
from pathlib import Path

import pytest
from mnema_client import AsyncMnema

from app.config.settings import Settings
from tests.child_program import Ended, run_program
from tests.factories import Caller, make_caller, replica
from tests.fake_llm import fake_llm
from tests.usecases.reflecting import with_model

EXAMPLE = Path(__file__).resolve().parents[3] / "sdk" / "examples" / "turn_memory.py"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "turn-memory.md"
CLOCK = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ|(?<=time_since=)\w+")
SIGNALS = "[ASSISTANT SIGNALS — CHRONOLOGICAL (scope=user_cross_conversation)]"


async def run_example(url: str, key: str) -> Ended:
    """Run the example for Maya."""
    env = {**os.environ, "MNEMA_URL": url, "MNEMA_API_KEY": key}
    return await run_program(sys.executable, EXAMPLE, "maya", env=env, folder=Path("/"))


@pytest.mark.long
async def test_twelve_turns_of_two_conversations_remember_each_other(settings: Settings) -> None:
    async with fake_llm() as llm, replica(with_model(settings, llm)) as (url, app):
        key = (await make_caller(app)).key
        code, out, errors = await run_example(url, key)
        assert (code, errors) == (0, "")
        turns, _, final = out.partition("\n\n")
        assert len(turns.splitlines()) == 12
        assert turns.splitlines()[0].endswith("| memories: none")
        assert turns.splitlines()[7].endswith("| memories: web-shop-7, web-shop-6, web-shop-5, web-shop-4, web-shop-3")
        memories, feedback, signals = final.strip().split("\n\n")
        assert memories.startswith("[TURN MEMORIES — CHRONOLOGICAL (selected; scope=conversation)]")
        assert "support-desk-2" in memories
        assert "web-shop" not in memories
        assert feedback == "[USER FEEDBACK — CHRONOLOGICAL (scope=conversation)]\n(none)"
        assert signals.startswith(SIGNALS)
        assert CLOCK.sub("…", final.strip()) in CLOCK.sub("…", PAGE.read_text(encoding="utf-8"))
        assert [line.split(" (")[0] for line in signals.splitlines() if "signal:" in line] == [
            "  - signal: plan = Growth plan",
            "  - signal: plan = Starter plan",
        ]
        async with AsyncMnema(url, key) as memory:
            view = await memory.context_view("web-shop", "gate", user_id="maya")
            assert "No arrows." in view.blocks[3].text
        assert len(llm.asked) == 24
        assert (await run_example(url, key))[0] == 0  # the same turns again are the same turns


async def test_without_a_chat_model_it_says_so(server: str, caller: Caller) -> None:
    code, out, errors = await run_example(server, caller.key)
    assert (code, out) == (1, "")
    assert errors.startswith("no_chat_model: ")
    assert errors.count("\n") == 1
