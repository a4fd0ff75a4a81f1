"""Texts that the embedding model refuses block no others, and the job's error has the endpoint's status."""

from collections.abc import Sequence

import asyncpg
import pytest

from app.bootstrap import Application
from app.bootstrap.spaces import build_embed_missing
from app.domain.agent_state.store_items import Batch, PutItem
from app.domain.errors import NotFound
from app.domain.outages import ChatModelUnavailable, EmbedderRefused, EmbedderUnavailable
from app.domain.principal import Principal
from app.ports import Embedding
from app.usecases.jobs.runner import describe_error
from app.usecases.operations import embed_missing as embedding_of
from tests.factories import Caller, draft
from tests.usecases.crowd import SeededEmbedder


class Fastidious(SeededEmbedder):
    """An embedder that refuses every call with a text that contains a certain word."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word
        self.calls: list[list[str]] = []

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        self.calls.append(list(texts))
        if any(self.word in text for text in texts):
            raise EmbedderRefused("The embedding endpoint answered HTTP 400.")
        return await super().encode_texts(texts)


@pytest.fixture
def embedder() -> SeededEmbedder:
    return SeededEmbedder()


async def without_vectors(app: Application, caller: Caller, sql: asyncpg.Connection, texts: Sequence[str]) -> None:
    for text in texts:
        await app.memory.write.write_memory(caller.scope, draft(text))
    await sql.execute("DELETE FROM vec_minilm_l6_v2")


async def embedded_texts(sql: asyncpg.Connection) -> set[str]:
    joined = "SELECT text FROM memories m JOIN vec_minilm_l6_v2 v ON v.memory_id = m.id"
    return {row["text"] for row in await sql.fetch(joined)}


async def test_a_refused_text_holds_up_no_other(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    texts = [f"Maya owns thing{n} {n}q." for n in range(12)]
    await without_vectors(app, caller, sql, texts)
    values = [PutItem(("notes",), str(n), {"text": texts[n]}, ("text",)) for n in range(8)]
    await app.agent_state.store_items.run_batch(caller.scope, Batch(puts=tuple(values)))
    await sql.execute("DELETE FROM store_vectors")
    model = Fastidious("thing7 ")
    scope = Principal(caller.scope.tenant_id)
    fill = build_embed_missing(app.parts.uow, "minilm_l6_v2", model, 5000)
    report = await fill.embed_all(scope)
    assert report["embedded"] == 11
    assert report["refused"] >= 1
    assert await embedded_texts(sql) == {text for text in texts if "thing7 " not in text}
    alone = [call for call in model.calls if len(call) == 1 and "thing7 " in call[0]]
    assert len(alone) == report["refused"]  # once in each run
    events = await sql.fetch("SELECT memory_id, status FROM events WHERE node = 'worker' AND op = 'embed'")
    refused = await sql.fetchval("SELECT id::text FROM memories WHERE text LIKE '%thing7 %'")
    assert refused in {row["memory_id"] for row in events}
    assert {row["status"] for row in events} == {"error"}
    again = await fill.embed_all(scope)
    assert (again["embedded"], again["refused"]) == (0, report["refused"])


async def test_a_turn_that_is_refused_does_not_fail_its_job(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await without_vectors(app, caller, sql, ["Maya owns thing7 today."])
    memory_id = await sql.fetchval("SELECT id FROM memories")
    fill = build_embed_missing(app.parts.uow, "minilm_l6_v2", Fastidious("thing7 "), 5000)
    assert await fill.embed_one(Principal(caller.scope.tenant_id), memory_id) == 0


async def test_where_everything_is_refused_a_run_ends(
    app: Application, caller: Caller, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_of, "MOST_REFUSED", 3)
    await without_vectors(app, caller, sql, [f"Maya owns thing{n} {n}q." for n in range(6)])
    model = Fastidious("")
    fill = build_embed_missing(app.parts.uow, "minilm_l6_v2", model, 5000)
    with pytest.raises(EmbedderRefused, match="refused 3 texts"):
        await fill.embed_all(Principal(caller.scope.tenant_id))
    assert [call for call in model.calls if len(call) == 1][-1] == ["ready"]
    assert sum(len(call) == 1 for call in model.calls) == 4


async def test_texts_that_are_always_refused_hold_up_no_other(
    app: Application, caller: Caller, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_of, "MOST_REFUSED", 3)
    await without_vectors(app, caller, sql, [f"Maya owns thing{n} {n}q." for n in range(6)] + ["Ben drinks tea."])
    report = await build_embed_missing(app.parts.uow, "minilm_l6_v2", Fastidious("Maya"), 5000).embed_all(
        Principal(caller.scope.tenant_id)
    )
    assert (report["embedded"], report["refused"]) == (1, 6)


def test_a_failed_job_says_what_the_endpoint_answered() -> None:
    said = "The chat model's endpoint answered HTTP 401."
    assert describe_error(ChatModelUnavailable(said)) == f"chat_model_unavailable: {said}"
    assert describe_error(EmbedderUnavailable("x HTTP 404.")) == "embedder_unavailable: x HTTP 404."
    assert (
        describe_error(NotFound("of user maya")) == "not_found: No such memory."
    )  # the endpoint's own text is not stored
