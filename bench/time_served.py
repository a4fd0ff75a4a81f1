"""Answers after what was said has changed: the dialogues of `bench/time`, said and asked on a served installation.

    python -m bench.time_served [--failures]

Each dialogue is said in three ways, by a user of its own: as messages of a chat, as turns, and as statements to
`POST /facts` that are turns as well. Background jobs run after each message. Then a chat asks the question, with no
history of its own, and one of these happens:

- `fact`: stored facts answer, without a model. An answer with a stale word is a `stale fact`.
- `closed`: the model gets nothing stale.
- `both`: the model gets the stale statement and the later message that changed it.
- `stale alone`: the model gets the stale statement, and not that message.

The model is scripted: it shows what a model would read, and its answer says nothing.
"""

import argparse
import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx

from app.bootstrap import Application, Doubles, build_application
from app.domain.text_rules import normalise_text
from bench import throwaway
from bench.memory import chat_settings, run_due_jobs, serve_api
from bench.time_rules import HALVES, LANGUAGES, load_lines
from tests.fake_llm import FakeLlm, fake_llm

WAYS: Final = ("chat", "turns", "facts")
OUTCOMES: Final = ("fact", "closed", "both", "stale alone", "stale fact")
REPLY: Final = "All right."


class DialogueRun:
    """A run of dialogues on one installation. `failures`: a line for each dialogue with a stale answer."""

    def __init__(self, app: Application, client: httpx.AsyncClient, model: FakeLlm) -> None:
        self._app = app
        self._client = client
        self._model = model
        self.failures: list[str] = []

    async def play(self, dialogue: Mapping[str, Any], way: str, user: str) -> str:
        """Say the turns and ask the question; return the outcome."""
        for turn in dialogue["turns"]:
            await self._say(way, user, turn)
            await run_due_jobs(self._app)
        told, is_fact = await self._ask(user, dialogue["question"])
        outcome = _judge(dialogue, told, is_fact=is_fact)
        if outcome.startswith("stale"):
            self.failures.append(f"{way}: {dialogue['turns']} {dialogue['question']} -> {told}")
        return outcome

    async def _say(self, way: str, user: str, text: str) -> None:
        if way == "chat":
            await self._ask(user, text)
            return
        if way == "facts":
            await self._post("/facts", {"user_id": user, "text": text})
        await self._post("/turns", {"user_id": user, "thread_id": "default", "role": "user", "content": text})

    async def _ask(self, user: str, text: str) -> tuple[str, bool]:
        """Send a message of a chat. Return the answer of facts, or what the model got, and which it is."""
        self._model.said.append(REPLY)
        before = len(self._model.requests)
        body = {"model": "m", "user": user, "messages": [{"role": "user", "content": text}]}
        answer = await self._post("/v1/chat/completions", body)
        if len(self._model.requests) == before:
            self._model.said.clear()
            return answer["choices"][0]["message"]["content"], True
        content: str = self._model.requests[before]["messages"][-1]["content"]
        return content.removesuffix(text), False

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = (await self._client.post(path, json=body)).raise_for_status().json()
        return answer


def _judge(dialogue: Mapping[str, Any], told: str, *, is_fact: bool) -> str:
    stale = [word for word in dialogue["stale"] if _has_word(told, word)]
    if is_fact:
        return "stale fact" if stale else "fact"
    if not stale:
        return "closed"
    said = normalise_text(told)
    later = _turns_behind(dialogue["turns"], stale)
    return "both" if any(normalise_text(turn) in said for turn in later) else "stale alone"


def _turns_behind(turns: Sequence[str], stale: Sequence[str]) -> Sequence[str]:
    """Return the turns behind the first that has a stale word."""
    first = next((at for at, turn in enumerate(turns) if any(_has_word(turn, word) for word in stale)), 0)
    return turns[first + 1 :]


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) is not None


async def play_dialogues(site: throwaway.Site) -> tuple[dict[tuple[str, str], Counter[str]], list[str]]:
    """Return the outcomes by language and way, and the dialogues with a stale answer."""
    outcomes: dict[tuple[str, str], Counter[str]] = {}
    async with fake_llm() as model:
        settings = chat_settings(site, model, with_model=False)
        async with (
            build_application(settings) as app,
            serve_api(settings, Doubles(embedder=app.parts.embedder), site.key) as client,
        ):
            run = DialogueRun(app, client, model)
            for language in LANGUAGES:
                dialogues = [line for half in HALVES for line in load_lines("dialogues", language, half)]
                for way in WAYS:
                    counts = outcomes.setdefault((language, way), Counter())
                    for number, dialogue in enumerate(dialogues):
                        counts[await run.play(dialogue, way, f"{language} {way} {number}")] += 1
            return outcomes, run.failures


def main() -> None:
    """Print the outcomes, and with --failures the dialogues with a stale answer."""
    parser = argparse.ArgumentParser(prog="python -m bench.time_served", description="Answers after changes.")
    parser.add_argument("--failures", action="store_true", help="print the dialogues with a stale answer")
    options = parser.parse_args()
    with throwaway.open_site(0) as site:
        outcomes, failures = asyncio.run(play_dialogues(site))
    print(f"| language | way | dialogues | {' | '.join(OUTCOMES)} |")
    for (language, way), counts in outcomes.items():
        print(f"| {language} | {way} | {counts.total()} | {' | '.join(str(counts[name]) for name in OUTCOMES)} |")
    if options.failures:
        print("\n".join(failures))


if __name__ == "__main__":
    main()
