"""mem0's own client against a real server: only the host is changed.

The client brings some thirty packages. It runs where `mem0ai` is installed, or with the Python that MNEMA_TEST_MEM0
names:

    python -m venv X && X/bin/pip install mem0ai
    MNEMA_TEST_MEM0=X/bin/python pytest tests/api/mem0/test_client.py
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application
from tests.child_program import run_program
from tests.factories import Caller, make_caller

INSTALLED = importlib.util.find_spec("mem0") is not None
PYTHON = os.environ.get("MNEMA_TEST_MEM0") or (sys.executable if INSTALLED else None)
CALLS = Path(__file__).with_name("client_calls.py.txt")
pytestmark = pytest.mark.skipif(not PYTHON, reason="needs mem0ai: MNEMA_TEST_MEM0")
FACT = "I'm a vegetarian and allergic to nuts."
NOW = "I'm a vegan and allergic to nuts."


async def told_by_the_client(home: Path, *arguments: str) -> dict[str, Any]:
    """Run the calls; return what the client got, by the name of the call."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "MEM0_TELEMETRY": "false"}
    ended = await run_program(PYTHON or "", "-", *arguments, env=env, stdin=CALLS.read_bytes())
    told: dict[str, Any] = json.loads(ended.output())
    return told


def memories(answer: dict[str, Any]) -> list[str]:
    return [memory["memory"] for memory in answer["results"]]


async def test_the_calls_of_its_quick_start_work(app: Application, server: str, caller: Caller, tmp_path: Path) -> None:
    other = await make_caller(app)
    told = await told_by_the_client(tmp_path, server, caller.key, other.key)
    [added] = told["added"]["results"]
    assert (added["memory"], added["event"]) == (FACT, "ADD")
    assert memories(told["found"])[0] == FACT
    assert memories(told["and"]) == [FACT]
    assert set(memories(told["or"])) == {"My name is Alice.", "I live in Lisbon and work as a nurse."}
    assert memories(told["all"]) == ["I live in Lisbon and work as a nurse.", FACT]
    assert [memories(page) for page in told["paged"]] == [["I live in Lisbon and work as a nurse."], [FACT]]
    assert len(told["verbatim"]["results"]) == 2
    assert (told["one"]["user_id"], told["one"]["metadata"]) == ("user123", {"food": "vegan"})
    assert (told["updated"]["text"], told["updated"]["metadata"]) == (NOW, {"food": "plants"})
    changes = [(change["event"], change["old_memory"], change["new_memory"]) for change in told["history"]]
    assert changes == [("ADD", None, FACT), ("UPDATE", FACT, NOW)]
    entities = {(entity["type"], entity["name"]): entity["total_memories"] for entity in told["users"]["results"]}
    assert entities == {("user", "ben"): 2, ("user", "user123"): 2, ("agent", "tutor"): 1, ("run", "trip"): 1}
    assert told["gone"] == "MemoryNotFoundError"
    assert told["history afterwards"] == ["ADD", "UPDATE", "DELETE"]
    assert memories(told["left"]) == []
    assert told["async history"][-1]["new_memory"] == "I'm travelling to Porto"
    assert memories(told["async found"]) == memories(told["async all"]) == ["I'm travelling to SF"]
    assert told["nobody"]["results"] == []
    # another tenant sees and changes nothing, and an unknown key gets no client
    assert [answer["results"] for answer in told["elsewhere"]] == [[], [], []]
    assert told["refused"] == [["MemoryNotFoundError", "HTTP_404"]] * 3
    assert told["unknown key"] == "Error: The API key is unknown, revoked or expired."
