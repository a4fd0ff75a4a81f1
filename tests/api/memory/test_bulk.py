"""POST /memory/bulk: one answer for each line, in order; a bad line does not affect the others."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import httpx
import pytest

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.domain.changes import MemoryChange
from app.domain.memory.memory import MemoryType
from app.domain.outages import DatabaseUnavailable, EmbedderUnavailable
from app.domain.principal import Principal
from app.ports import Vector
from app.storage.journal import Journal, Outcome
from app.usecases.memory.bulk import BATCH, BulkLine
from app.usecases.tenancy.limits import Limits
from tests.api.calls import history_of, listed, refused, row_counts, settled_counts, sql
from tests.conftest import Database
from tests.factories import Caller, body, draft, make_caller, serve
from tests.usecases.crowd import SeededEmbedder, seeded

MANY = 2_000
Answer = dict[str, Any]


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


def line(text: str, **fields: Any) -> bytes:
    """Return one memory as an input line."""
    return json.dumps(body(text, **fields)).encode()


async def bulk(
    client: httpx.AsyncClient, lines: Iterable[bytes], key: str | None = None, **params: Any
) -> list[Answer]:
    """Send the lines; return the answers."""
    headers = {"Idempotency-Key": key} if key else {}
    response = await client.post("/memory/bulk", content=b"\n".join(lines), headers=headers, params=params)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(answer) for answer in response.text.splitlines()]


def errors(answers: Iterable[Answer]) -> dict[int, tuple[int, str]]:
    """Return status and code of the refused lines by number."""
    return {a["line"]: (a["error"]["status"], a["error"]["code"]) for a in answers if "error" in a}


GOOD = line("Maya keeps bees.")
BAD: dict[str, tuple[bytes, tuple[int, str]]] = {
    "cut off": (b'{"user_id": "maya", "category": "tas', (422, "invalid_request")),
    "not an object": (b'["maya", "tasks", "Maya runs."]', (422, "invalid_request")),
    "an unknown field": (line("Maya runs.", colour="red"), (422, "invalid_request")),
    "no user": (b'{"category": "tasks", "text": "Maya runs."}', (422, "invalid_request")),
    "an empty text": (line(" \u200b "), (422, "empty_text")),
    "a long text": (line("Maya runs. " * 40), (422, "text_too_long")),
    "an unknown category": (line("Maya runs.", category="moods"), (422, "unknown_category")),
    "a future date": (line("Maya runs.", created_at="9000-01-01"), (422, "invalid_request")),
    "bad UTF-8": (b'{"user_id": "maya", "category": "tasks", "text": "Maya \xff runs."}', (422, "invalid_request")),
    "a NUL in a name": (line("Maya runs.", thread_id="a\x00b"), (422, "invalid_request")),
    "a NUL in metadata": (line("Maya runs.", metadata={"a": "\x00"}), (422, "invalid_request")),
    "a NUL in a quote": (line("Maya runs.", source={"turn_id": "t", "quote": "\x00"}), (422, "invalid_request")),
    "a bare NUL": (b'{"user_id": "maya", "category": "tasks", "text": "Maya \x00 runs."}', (422, "invalid_request")),
    "half a surrogate": (line("Maya \ud83d runs."), (422, "invalid_characters")),
    "a bottomless list": (b"[" * 100_000, (422, "invalid_request")),
    "an endless number": (line("Maya runs.")[:-1] + b', "seq": ' + b"9" * 5_000 + b"}", (422, "invalid_request")),
    "no steps": (line("Maya runs.", category="procedural"), (422, "invalid_request")),
    "a huge line": (line("Maya runs.", metadata={"a": "x" * (1 << 20)}), (413, "body_too_large")),
    "a huge line of blanks": (GOOD + b" " * (1 << 20) + b"{", (413, "body_too_large")),
}


@pytest.mark.long
async def test_every_line_is_answered_in_order_with_its_number_and_every_id_has_its_history(
    http: httpx.AsyncClient, database: Database
) -> None:
    lines = [line(f"Note number {n} of Maya.", user_id=f"user {n % 7}", thread_id=f"t{n % 3}") for n in range(MANY)]
    broken = dict.fromkeys((1, BATCH, BATCH + 1, MANY), (422, "invalid_request"))
    for number in broken:
        lines[number - 1] = b"{"
    answers = await bulk(http, lines)
    assert [answer["line"] for answer in answers] == list(range(1, MANY + 1))
    assert errors(answers) == broken
    written = [answer for answer in answers if "error" not in answer]
    assert {answer["action"] for answer in written} == {"created"}
    history = await sql(database, "SELECT memory_id, event, meta->'after'->>'text' AS text FROM history")
    assert {row["memory_id"]: (row["event"], row["text"]) for row in history} == {
        answer["id"]: ("ADD", f"Note number {answer['line'] - 1} of Maya.") for answer in written
    }
    assert [row["event"] for row in await history_of(http, written[-1]["id"])] == ["ADD"]
    revisions = Counter(f"t{(answer['line'] - 1) % 3}" for answer in written)
    assert dict(await sql(database, "SELECT thread_id, rev FROM thread_revision")) == dict(revisions)


@pytest.mark.long
async def test_a_bad_line_is_reported_by_its_number_and_the_rest_is_stored(http: httpx.AsyncClient) -> None:
    lines, expected = [], {}
    for number, (bad, verdict) in enumerate(BAD.values(), 1):
        lines += [bad, line(f"Fact {number} of Maya.")]
        expected[2 * number - 1] = verdict
    answers = await bulk(http, lines)
    assert [answer["line"] for answer in answers] == list(range(1, len(lines) + 1))
    assert errors(answers) == expected
    assert len(await listed(http, limit=200)) == len(BAD)
    assert all(len(answer["error"]["detail"]) < 1_000 for answer in answers if "error" in answer)


async def test_a_key_bound_to_an_agent_writes_only_its_categories_and_as_no_other_agent(
    app: Application, server: str, caller: Caller
) -> None:
    stylist = await make_caller(app, ["write", "query"], ["stylist"], caller)
    lines = [line("Maya wears green.", category="style"), line("Maya runs.", category="tasks")]
    lines.append(line("Maya wears red.", category="style", agent_id="planner"))
    async with stylist.client(server) as client:
        answers = await bulk(client, lines)
        assert errors(answers) == {2: (403, "category_not_allowed"), 3: (403, "agent_not_allowed")}
        assert [item["text"] for item in await listed(client)] == ["Maya wears green."]


async def test_blank_lines_are_passed_over_but_counted(http: httpx.AsyncClient) -> None:
    first, second = line("Maya reads."), line("Maya sings.")
    answers = await bulk(http, [b"\xef\xbb\xbf" + first + b"\r", b"", b"  \t\r", second, b"", b""])
    assert [(answer["line"], answer["action"]) for answer in answers] == [(1, "created"), (4, "created")]
    assert await bulk(http, []) == []


async def test_equal_texts_make_one_memory_but_every_turn_stays_its_own(http: httpx.AsyncClient) -> None:
    same = [line("Maya drinks oat milk."), line("maya drinks  oat milk", importance=4)]
    turn = line("Good morning!", category="activity", type="turn", thread_id="t")
    answers = await bulk(http, [*same, turn, turn, line("Maya drinks oat milk.", user_id="ben")])
    assert [answer["action"] for answer in answers] == ["created", "updated", "created", "created", "created"]
    assert answers[0]["id"] == answers[1]["id"] == answers[1]["matched_id"]
    assert len({answer["id"] for answer in answers}) == 4
    assert [answer.get("revision") for answer in answers] == [None, None, 1, 2, None]


async def test_a_too_long_text_is_trimmed_on_request(http: httpx.AsyncClient) -> None:
    [answer] = await bulk(http, [line("Maya runs far. " * 40)], trim=True)
    assert len((await http.get(f"/memory/{answer['id']}")).json()["text"]) <= 280


REPEATED = [
    line("Maya drinks oat milk.", thread_id="t"),
    line("Maya drinks oat milk", thread_id="t"),
    line("Good morning!", category="activity", type="turn", thread_id="t"),
    b"{",
    line("Good morning!", category="activity", type="turn", thread_id="t"),
    line("Water the bees", category="procedural", type="procedural", steps_text="1. Fill the bowl.\n2. Wait."),
]


@pytest.mark.long
async def test_the_whole_request_sent_again_gives_the_same_answers_and_stores_nothing(
    http: httpx.AsyncClient, database: Database
) -> None:
    first = await bulk(http, REPEATED, "again")
    before = await settled_counts(http, database)
    assert await bulk(http, REPEATED, "again") == first
    assert await settled_counts(http, database) == before
    assert await bulk(http, [*REPEATED, line("Maya sings.")], "again") == [*first, {**(await _last(http)), "line": 7}]
    changed = await bulk(http, [line("Maya skates."), *REPEATED[1:]], "again")
    assert errors(changed) == {1: (409, "idempotency_key_reused"), 4: (422, "invalid_request")}
    assert changed[1:] == first[1:]


async def _last(client: httpx.AsyncClient) -> Answer:
    """Return the newest memory as the bulk route reported it on creation."""
    newest = (await listed(client, limit=1))[0]
    return {"id": newest["id"], "action": "created", "similarity": pytest.approx(0, abs=0.5), "related": 0}


async def test_a_lines_own_key_makes_that_line_safe_to_send_again(http: httpx.AsyncClient) -> None:
    turn = body("Good morning!", category="activity", type="turn", idempotency_key="turn 1")
    same = json.dumps(turn).encode()
    other = json.dumps(turn | {"text": "Good night!"}).encode()
    first = await bulk(http, [same, same, other])
    assert (first[0] | {"line": 2}, errors(first)) == (first[1], {3: (409, "idempotency_key_reused")})
    assert await bulk(http, [same], "another request") == first[:1]
    assert len(await listed(http)) == 1


async def test_a_lines_own_key_is_never_taken_for_the_requests(http: httpx.AsyncClient) -> None:
    own = json.dumps(body("Maya sings.", idempotency_key="r:2")).encode()
    answers = await bulk(http, [own, line("Maya skates.")], "r")
    assert [answer.get("action") for answer in answers] == ["created", "created"]


@pytest.mark.long
async def test_a_client_that_left_halfway_sends_again_and_nothing_is_doubled(
    http: httpx.AsyncClient, server: str, caller: Caller, database: Database
) -> None:
    lines = [line(f"Turn {n}.", category="activity", type="turn") for n in range(BATCH + 100)]
    headers = caller.headers | {"Idempotency-Key": "half"}
    async with (
        httpx.AsyncClient(base_url=server, timeout=30) as leaving,
        leaving.stream("POST", "/memory/bulk", content=b"\n".join(lines), headers=headers) as response,
    ):
        async for _chunk in response.aiter_bytes():
            break
    answers = await bulk(http, lines, "half")
    assert len({answer["id"] for answer in answers}) == len(lines)
    assert (await row_counts(database))["memories"] == len(lines)


@pytest.mark.long
async def test_while_the_embedder_fails_every_line_says_so_and_nothing_is_stored(
    http: httpx.AsyncClient, embedder: SeededEmbedder, database: Database
) -> None:
    embedder.failing = True
    lines = [line(f"Fact {n} of Maya.") for n in range(BATCH + 10)]
    lines[2] = b"{"
    failed = await bulk(http, lines, "later")
    assert Counter(errors(failed).values()) == {(503, "embedder_unavailable"): BATCH + 9, (422, "invalid_request"): 1}
    assert {table: n for table, n in (await row_counts(database)).items() if table in ("memories", "history")} == {
        "memories": 0,
        "history": 0,
    }
    embedder.failing = False
    assert errors(await bulk(http, lines, "later")) == {3: (422, "invalid_request")}
    assert len(await sql(database, "SELECT 1 FROM memories")) == BATCH + 9


class FailsOnce(SeededEmbedder):
    """An embedder that fails for the first batch only."""

    calls = 0

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return the inner embedder's vectors from the second call on."""
        self.calls += 1
        if self.calls == 1:
            raise EmbedderUnavailable()
        return [seeded(text) for text in texts]


async def test_when_the_embedder_comes_back_later_batches_are_stored(app: Application, settings: Settings) -> None:
    caller = await make_caller(app)
    async with serve(settings, Doubles(embedder=FailsOnce())) as url, caller.client(url) as client:
        answers = await bulk(client, [line(f"Fact {n} of Maya.") for n in range(BATCH + 10)])
    assert [answer["line"] for answer in answers if "error" not in answer] == list(range(BATCH + 1, BATCH + 11))


async def test_a_defect_met_by_one_line_leaves_the_others_their_answers(
    app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Journal.record

    async def stumbles(self: Journal, scope: Principal, changes: Sequence[MemoryChange], **more: Any) -> Outcome:
        if any(change.new and "stones" in change.new.text for change in changes):
            raise RuntimeError("a defect")
        return await record(self, scope, changes, **more)

    monkeypatch.setattr(Journal, "record", stumbles)
    texts = ["Maya collects stamps.", "Maya collects stones.", "Ben repairs bicycles at night."]
    lines = [BulkLine(n, draft(text)) for n, text in enumerate(texts, 1)]
    results = [r async for r in app.memory.bulk.write_lines(caller.scope, lines)]
    assert [getattr(r.outcome, "status", "written") for r in results] == ["written", 500, "written"]
    monkeypatch.undo()
    async with app.parts.uow.read(caller.scope) as tx:
        stored = await tx.fetch("SELECT text FROM memories ORDER BY text")
    assert [row["text"] for row in stored] == [texts[2], texts[0]]


async def test_lines_whose_commit_nobody_heard_of_are_not_stored_twice(
    app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Journal.record

    async def unheard(self: Journal, scope: Principal, changes: Sequence[MemoryChange], **more: Any) -> Outcome:
        await record(self, scope, changes, **more)
        raise DatabaseUnavailable

    monkeypatch.setattr(Journal, "record", unheard)
    lines = [BulkLine(n, draft(f"Turn {n}.", type=MemoryType.turn, category="activity")) for n in range(3)]
    results = [r async for r in app.memory.bulk.write_lines(caller.scope, lines)]
    assert [getattr(r.outcome, "status", "written") for r in results] == [503, 503, 503]
    async with app.parts.uow.read(caller.scope) as tx:
        assert await tx.fetchval("SELECT count(*) FROM memories") == 3


async def test_lines_that_were_counted_and_never_stored_cost_no_quota(
    app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = Counter[Principal]()
    monkeypatch.setattr(Limits, "give_back", lambda _self, scope: returned.update([scope]))

    def lines() -> Iterator[BulkLine]:
        for number in range(2 * BATCH + 3):
            yield BulkLine(number, draft(f"Turn {number}.", type=MemoryType.turn, category="activity"))
        raise ConnectionError("the caller has gone")

    stored = []

    async def read() -> None:
        async for result in app.memory.bulk.write_lines(caller.scope, lines()):
            stored.append(result.number)

    with pytest.raises(ConnectionError):
        await read()
    assert (len(stored), returned) == (BATCH, {caller.scope: BATCH + 3})


async def test_it_takes_a_key_that_may_write_and_writes_in_its_tenant_alone(
    app: Application, http: httpx.AsyncClient, server: str, caller: Caller
) -> None:
    reader, stranger = await make_caller(app, ["query"], tenant=caller), await make_caller(app)
    async with httpx.AsyncClient(base_url=server) as nobody:
        refused(await nobody.post("/memory/bulk", content=GOOD), 401, "unauthenticated")
    async with reader.client(server) as client:
        refused(await client.post("/memory/bulk", content=GOOD), 403, "scope_required")
    async with stranger.client(server) as client:
        await bulk(client, [GOOD], "same key")
    assert await listed(http) == []
    [answer] = await bulk(http, [GOOD], "same key")
    assert [item["id"] for item in await listed(http)] == [answer["id"]]
