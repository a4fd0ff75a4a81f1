"""Measurement from a turn to a first-person question in another conversation, through chat and `memory.query`.

    mnema bench memory [--parts development,held-out,stored] [--model] [--again 10] [--json FILE]

Each person of bench/first_person talks through `POST /v1/chat/completions` to an endpoint that gives the answers of the
corpus. After each answer all due jobs run, as a worker would run them. Then the questions are asked, over HTTP with the
default settings, in four ways:

- `chat`: in a new conversation for each question.
- `one conversation`: all was said in one conversation, and the questions follow there one after the other.
- `memory.query`: as the agent `supervisor`, before anything was asked in a chat.
- `memory.query later`: the same after the chats, so that the asked questions and their answers are turns as well.

A question is answered if an item that the model would read is a turn that answers it, or was captured from one, or has
words of the answer in a statement of the user. `--model` also gives the installation the scripted model of the tests.
With `--again` each question is also asked that many times in chats of their own, in small letters and without its mark,
before `memory.query later`.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
import httpx

from app.api.main import create_app
from app.api.transport.server import HttpServer
from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.principal import Principal
from app.domain.recall.token_budget import line_tokens
from app.domain.text_rules import normalise_text
from bench import throwaway
from bench.first_person import AskedQuestion, Person, Turn, load_people
from tests.fake_llm import FakeLlm, fake_llm

ONE: Final = "everything"
"""The name of the conversation in which the copy of a person says all."""
WAYS: Final = ("chat", "one conversation", "memory.query", "memory.query later")
REPLY: Final = "I am not sure. You asked: "
"""The beginning of the endpoint's answer to each question: it repeats the question and tells nothing."""
NOT_STORED: Final = "I don't have that stored yet"


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory of a person: where it stands, its text, and the turn that it was captured from."""

    id: str
    conversation: str | None
    role: str | None
    is_turn: bool
    text: str
    captured_from: str | None


@dataclass(frozen=True, slots=True)
class Told:
    """The items that a model would read with one question: ids of memories or texts, and their tokens."""

    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    tokens: int = 0


@dataclass(slots=True)
class MemoryFigures:
    """The results: one row for each question and way."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add_question(self, way: str, part: str, question: AskedQuestion, told: Told, *, answered: bool) -> None:
        """Add one question that was asked one way."""
        self.rows.append(
            {
                "way": way,
                "part": part,
                "kind": question.kind,
                "question": question.id,
                "answered": answered,
                "items": len(told.ids) + len(told.texts),
                "tokens": told.tokens,
            }
        )

    def mean_of(self, name: str, rows: Iterable[Mapping[str, Any]]) -> float:
        """Return the mean of a figure over some rows."""
        values = [float(row[name]) for row in rows]
        return sum(values) / len(values)

    def summary(self) -> list[dict[str, Any]]:
        """Return a line for each way, part and kind of question, in the order of the corpus."""
        groups: defaultdict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in self.rows:
            groups[row["way"], row["part"], row["kind"]].append(row)
        return [
            {"way": way, "part": part, "kind": kind, "questions": len(rows)}
            | {name: round(self.mean_of(name, rows), 3) for name in ("answered", "items", "tokens")}
            for (way, part, kind), rows in groups.items()
        ]


class PersonMemories:
    """The memories of one person, and which of them answer a question."""

    def __init__(self, memories: Sequence[StoredMemory], person: Person) -> None:
        self._memories = memories
        self._person = person
        self._asked = {normalise_text(question.text) for question in person.questions}
        self._by_id = {memory.id: memory for memory in memories}

    def answers(self, question: AskedQuestion, told: Told) -> bool:
        """Return True if an item is evidence or a statement of the user with words of the answer."""
        told_texts = [normalise_text(text) for text in told.texts]
        right = self._right_memories(question)
        if any(memory.id in told.ids for memory in right):
            return True
        if any(_is_text_of(memory, text) for memory in right for text in told_texts):
            return True
        unknown = (text for text in told_texts if not any(_is_text_of(m, text) for m in self._memories))
        return any(_has_answer(text, question.answer) for text in unknown)  # what facts answer is no memory

    def _right_memories(self, question: AskedQuestion) -> list[StoredMemory]:
        evidence = self._evidence_of(question)
        return [
            memory
            for memory in self._memories
            if memory.id in evidence
            or memory.captured_from in evidence
            or (self._is_statement(memory) and _has_answer(memory.text, question.answer))
        ]

    def _evidence_of(self, question: AskedQuestion) -> set[str]:
        texts = {
            (turn.role, normalise_text(turn.text))
            for turn in self._person.turns
            if (turn.conversation, turn.at) in question.evidence
        }
        return {memory.id for memory in self._memories if memory.is_turn and (memory.role, memory.text) in texts}

    def _is_statement(self, memory: StoredMemory) -> bool:
        """Return True for a user's own turn, other than a question of the corpus, and for what is known from one."""
        if memory.is_turn:
            return memory.role == "user" and normalise_text(memory.text) not in self._asked
        origin = self._by_id.get(memory.captured_from or "")
        return origin is None or origin.role == "user"


def _is_text_of(memory: StoredMemory, told: str) -> bool:
    return bool(memory.text) and normalise_text(memory.text) == told


def _has_answer(text: str, answers: Collection[str]) -> bool:
    return any(answer in text.lower() for answer in answers)


class _Run:
    """A run with all its people, on one installation. `settings`: those of its server."""

    def __init__(
        self, app: Application, client: httpx.AsyncClient, model: FakeLlm, database: str, again: int = 0
    ) -> None:
        self._app = app
        self._again = again
        self._client = client
        self._model = model
        self._database = database
        self.figures = MemoryFigures()

    async def store_person(self, person: Person, user: str, conversation: str | None) -> None:
        """Store what a person said, each conversation by its name or all in one, and what is known of them."""
        for category, text in person.facts:
            body = {"user_id": user, "category": category, "text": text}
            (await self._client.post("/memory", json=body)).raise_for_status()
        for said, reply in _pairs_of(person.turns):
            await self._say(user, conversation or said.conversation, said.text, reply)
        await run_due_jobs(self._app)

    async def ask_person(self, person: Person, own: str, one: str) -> None:
        """Ask the questions of a person in each way. `own` and `one` are their user ids."""
        await self._query_person("memory.query", person, own)
        await self._chat_person("chat", person, own, None)
        if person.turns:
            await self._chat_person("one conversation", person, one, ONE)
        await self._ask_again(person, own)
        await self._query_person("memory.query later", person, own)

    async def _ask_again(self, person: Person, user: str) -> None:
        for question in person.questions:
            asked = question.text.lower().rstrip("?")
            for at in range(self._again):
                await self._say(user, f"ask {question.id} again {at}", asked, REPLY + asked)
        await run_due_jobs(self._app)

    async def _chat_person(self, way: str, person: Person, user: str, conversation: str | None) -> None:
        memories = PersonMemories(await self._load_memories(user), person)
        for question in person.questions:
            told = await self._say(user, conversation or f"ask {question.id}", question.text, REPLY + question.text)
            answered = memories.answers(question, told)
            self.figures.add_question(way, person.part, question, told, answered=answered)
            await run_due_jobs(self._app)

    async def _query_person(self, way: str, person: Person, user: str) -> None:
        memories = PersonMemories(await self._load_memories(user), person)
        for question in person.questions:
            body = {"agent": "supervisor", "query": question.text, "filters": {"user_id": user}}
            answer = (await self._client.post("/memory/query", json=body)).raise_for_status().json()
            items = [*answer["items"], *answer["related"]]
            fact = answer.get("fact_answer") or {}
            texts = (fact["text"],) if fact.get("answered") else ()
            told = Told(tuple(item["id"] for item in items), texts, answer["tokens"])
            answered = memories.answers(question, told)
            self.figures.add_question(way, person.part, question, told, answered=answered)

    async def _say(self, user: str, conversation: str, text: str, reply: str) -> Told:
        """Send a user's message whose answer is `reply`. Return what the endpoint got with it."""
        self._model.said.append(reply)
        before = len(self._model.requests)
        body = {
            "model": "m",
            "user": user,
            "memory_id": conversation,
            "messages": [{"role": "user", "content": text}],
        }
        answer = (await self._client.post("/v1/chat/completions", json=body)).raise_for_status().json()
        if len(self._model.requests) == before:  # answered from facts
            self._model.said.clear()
            said = answer["choices"][0]["message"]["content"]
            return Told(texts=() if NOT_STORED in said else (said,), tokens=0)
        sent = self._model.requests[before]["messages"][-1]["content"]
        told = sent.removesuffix(text)
        texts = tuple(hit["content"] for hit in answer["memory_hits"])
        return Told(texts=texts, tokens=line_tokens(told, 0) if told else 0)

    async def _load_memories(self, user: str) -> list[StoredMemory]:
        connection = await asyncpg.connect(self._database)
        try:
            rows = await connection.fetch(
                "SELECT m.id::text, m.thread_id, m.role, m.type, m.text, m.source->>'turn_id' AS turn_id"
                " FROM memories m JOIN users u ON u.user_pk = m.user_pk WHERE u.user_id = $1"
                " AND m.state = 'active' ORDER BY m.id",
                user,
            )
        finally:
            await connection.close()
        return [
            StoredMemory(row["id"], row["thread_id"], row["role"], row["type"] == "turn", row["text"], row["turn_id"])
            for row in rows
        ]


def _pairs_of(turns: Sequence[Turn]) -> list[tuple[Turn, str]]:
    """Return each user's turn with the assistant's answer, a short one if there is none."""
    pairs = []
    for at, turn in enumerate(turns):
        if turn.role != "user":
            continue
        following = turns[at + 1] if at + 1 < len(turns) else None
        is_answer = following is not None and following.role == "assistant"
        is_same = following is not None and following.conversation == turn.conversation
        pairs.append((turn, following.text if following is not None and is_answer and is_same else "All right."))
    return pairs


async def run_due_jobs(app: Application) -> None:
    """Run all jobs that are due, as a worker would."""
    while due := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, _ in due:
            await app.jobs.run.run_job(tenant_id, job_id, "bench")


@asynccontextmanager
async def serve_api(settings: Settings, doubles: Doubles, key: str) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the HTTP API on a free port and yield a client with the key."""
    server = HttpServer(create_app(settings, doubles))
    await server.start("127.0.0.1", 0)
    try:
        headers = {"Authorization": f"Bearer {key}"}
        url = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
            yield client
    finally:
        await server.stop(10.0)


async def measure_people(
    site: throwaway.Site, parts: Sequence[str], say: Callable[[str], None], *, with_model: bool = False, again: int = 0
) -> MemoryFigures:
    """Store the people of these parts and ask their questions. `say` gets messages about the progress."""
    async with fake_llm() as model:
        settings = chat_settings(site, model, with_model=with_model)
        async with (
            build_application(settings) as app,
            serve_api(settings, Doubles(embedder=app.parts.embedder), site.key) as client,
        ):
            await _known_principal(app, site.key)
            await app.parts.embedder.embed_query("The model is loaded before the first chat, which waits 5 s for it.")
            run = _Run(app, client, model, site.superuser_url, again)
            for person in load_people(parts):
                own = person.name
                one = f"{person.name} in one conversation"
                await run.store_person(person, own, None)
                if person.turns:
                    await run.store_person(person, one, ONE)
                say(f"{person.name}: {len(person.turns)} turns, {len(person.questions)} questions")
                await run.ask_person(person, own, one)
            return run.figures


async def _known_principal(app: Application, key: str) -> Principal:
    principal = await app.tenancy.tenants.authenticate(key)
    if principal is None:
        raise RuntimeError("the tenant's key is not known")
    return principal


def chat_settings(site: throwaway.Site, model: FakeLlm, *, with_model: bool) -> Settings:
    """Return settings whose chat endpoint is the scripted server, which with the model answers Mnema's prompts too."""
    settings = site.home.server_settings(site.cluster).model_copy(
        update={"chat_upstream_url": model.base_url, "chat_private_upstreams": True}
    )
    if not with_model:
        return settings
    return settings.model_copy(update={"llm": "openai", "llm_base_url": model.base_url, "llm_model": "scripted"})


def run(parts: Sequence[str], say: Callable[[str], None], *, with_model: bool = False, again: int = 0) -> MemoryFigures:
    """Measure people on a throw-away installation."""
    with throwaway.open_site(0) as site:
        return asyncio.run(measure_people(site, parts, say, with_model=with_model, again=again))
