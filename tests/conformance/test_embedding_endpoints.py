"""Behaviours of embedding endpoints, as data: the endpoint, the settings, the requests and the outcome."""

from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import numpy as np
import pytest
from structlog.testing import capture_logs

from app.domain.errors import ConfigError
from app.domain.outages import EmbedderRefused, EmbedderUnavailable
from app.providers.api_keys import FixedKey, KeyFile, open_key
from app.providers.bounded_http import asked_wait_s
from app.providers.embeddings.batches import cut_to_tokens, estimate_text_tokens
from app.providers.embeddings.endpoint_answers import READ_BYTES, read_refusal
from app.providers.embeddings.endpoint_options import EndpointOptions, TextRole
from tests.conformance.embedders import client, same
from tests.fake_openai import FakeOpenAI, Fault, Manner

ENGLISH = "Maya plans the launch of the pilot lamps in Belgium and wants two rehearsals before it. " * 4
SHORT = ["one", "two", "three", "four", "five"]


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """An endpoint, the settings, and what becomes of `texts`.

    `sent` are the inputs of each request, or their number. `failure` is None if every text has the vector of what was
    sent last of it.
    """

    manner: Manner = field(default_factory=Manner)
    faults: tuple[Fault, ...] = ()
    options: EndpointOptions = field(default_factory=EndpointOptions)
    texts: list[str] = field(default_factory=lambda: ["one", "two"])
    sent: int | list[list[str]] = 1
    failure: str | None = None
    refused: bool = False
    events: tuple[str, ...] = ()


PREFIXES = EndpointOptions(query=TextRole("query: "), passage=TextRole("passage: "))
PAST_DATE = {"retry-after": "Sat, 28 Nov 2020 10:00:00 GMT"}
FUTURE_DATE = {"retry-after": "Fri, 28 Nov 2070 10:00:00 GMT"}
FAR_DATE = {"date": "Sat, 28 Nov 2026 10:00:00 GMT", "retry-after": "Sat, 28 Nov 2026 10:05:00 GMT"}
BEHAVIOURS = {
    "an endpoint that normalises": Behaviour(manner=Manner(unit_length=True)),
    "an endpoint that does not": Behaviour(),
    "a longer vector becomes the asked one": Behaviour(manner=Manner(native=96), sent=2),
    "vectors so much longer that the answer is not read": Behaviour(manner=Manner(native=20_000), texts=SHORT, sent=2),
    "a longer vector, and dimensions are not to be sent": Behaviour(
        manner=Manner(native=96),
        options=EndpointOptions(send_dimensions=False),
        failure="returned 2 by 96 numbers instead of 2 by 64",
    ),
    "a shorter vector": Behaviour(manner=Manner(native=32), failure="returned 2 by 32 numbers instead of 2 by 64"),
    "dimensions refused": Behaviour(
        manner=Manner(refuses={"dimensions": "Model does not support matryoshka: changing output Dimensions"}),
        options=EndpointOptions(send_dimensions=True),
        sent=2,
        events=("embedding_parameters_refused",),
    ),
    "dimensions and encoding_format refused by a strict schema": Behaviour(
        manner=Manner(
            refuses={
                "encoding_format": "body.encoding_format: Extra inputs are not permitted",
                "dimensions": "body.dimensions: Extra inputs are not permitted",
            },
            refusal_status=422,
        ),
        options=EndpointOptions(send_dimensions=True),
        sent=3,
        events=("embedding_parameters_refused",),
    ),
    "base64 as asked": Behaviour(options=EndpointOptions(encoding="base64")),
    "base64 although floats were asked": Behaviour(manner=Manner(encoding="base64")),
    "floats although base64 was asked": Behaviour(
        manner=Manner(encoding="float"), options=EndpointOptions(encoding="base64")
    ),
    "no index": Behaviour(manner=Manner(sends_index=False)),
    "a null vector": Behaviour(manner=Manner(null_vector=True), failure="cannot be used"),
    "a NaN": Behaviour(faults=(Fault.NAN,), failure="no direction", refused=True),
    "zeros": Behaviour(faults=(Fault.ZEROS,), failure="no direction", refused=True),
    "too few vectors": Behaviour(faults=(Fault.WRONG_COUNT,), failure="cannot be used"),
    "one index for all": Behaviour(faults=(Fault.SAME_INDEX,), failure="cannot be used"),
    "words for numbers": Behaviour(faults=(Fault.TEXT,), failure="not a list of vectors"),
    "no JSON": Behaviour(faults=(Fault.GARBAGE,), failure="cannot be used"),
    "overloaded, and asks for seconds": Behaviour(
        manner=Manner(wait={"retry-after": "0.001"}), faults=(Fault.OVERLOADED,) * 5, sent=6
    ),
    "rate limit with a date": Behaviour(manner=Manner(wait=PAST_DATE), faults=(Fault.RATE_LIMITED,), sent=2),
    "rate limit with a far date": Behaviour(
        manner=Manner(wait=FUTURE_DATE), faults=(Fault.RATE_LIMITED,), failure="answered HTTP 429"
    ),
    "batches within a bound of texts": Behaviour(
        options=EndpointOptions(batch_items=2), texts=SHORT, sent=[SHORT[:2], SHORT[2:4], SHORT[4:]]
    ),
    "batches within a bound of tokens": Behaviour(
        options=EndpointOptions(batch_tokens=2 * estimate_text_tokens(ENGLISH)),
        texts=[ENGLISH] * 3,
        sent=[[ENGLISH] * 2, [ENGLISH]],
    ),
    "a batch that is too large (text-embeddings-inference)": Behaviour(
        manner=Manner(most_items=2),
        texts=SHORT,
        sent=[SHORT, SHORT[:3], SHORT[:2], SHORT[2:3], SHORT[3:]],
        events=("embedding_batches_smaller",),
    ),
    "a batch of 413": Behaviour(manner=Manner(most_items=1, too_many=(413, "Payload Too Large")), sent=3),
    "a text that is too long (OpenAI)": Behaviour(
        manner=Manner(most_characters=100), texts=[ENGLISH], sent=3, events=("embedding_texts_cut",)
    ),
    "a text that is too long (llama.cpp)": Behaviour(
        manner=Manner(most_characters=200, too_long=(500, "input is too large to process. increase the batch size")),
        texts=[ENGLISH],
        sent=2,
        events=("embedding_texts_cut",),
    ),
    "a text that is too long (Ollama)": Behaviour(
        manner=Manner(most_characters=200, too_long=(400, "the input length exceeds the context length")),
        texts=["one", ENGLISH],
        sent=4,
        events=("embedding_texts_cut",),
    ),
    "a known window": Behaviour(
        manner=Manner(most_characters=100),
        options=EndpointOptions(window=30),
        texts=[ENGLISH],
        events=("embedding_texts_cut",),
    ),
    "every text is too long": Behaviour(
        manner=Manner(most_characters=0), texts=[ENGLISH], sent=7, failure="HTTP 400", refused=True
    ),
    "a refusal for another reason": Behaviour(
        manner=Manner(refuses={"model": "The model 'any-model' does not exist"}),
        texts=SHORT,
        failure="HTTP 400",
        refused=True,
    ),
    "prefixes": Behaviour(options=PREFIXES, sent=[["passage: one", "passage: two"]]),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_each_behaviour(server: FakeOpenAI, name: str) -> None:
    behaviour = BEHAVIOURS[name]
    server.manner = behaviour.manner
    server.faults.extend(behaviour.faults)
    embedder = client(server, options=behaviour.options)
    with capture_logs() as logs:
        if behaviour.failure is None:
            found = await embedder.embed_texts(behaviour.texts)
        else:
            with pytest.raises(EmbedderUnavailable, match=behaviour.failure) as caught:
                await embedder.embed_texts(behaviour.texts)
            assert isinstance(caught.value, EmbedderRefused) == behaviour.refused
            found = []
    await embedder.close()
    inputs = [request["input"] for request in server.requests]
    assert (inputs if isinstance(behaviour.sent, list) else len(inputs)) == behaviour.sent
    own = (line["event"] for line in logs if line["event"].startswith("embedding"))  # other tests' servers log too
    assert tuple(own) == behaviour.events
    prefix = behaviour.options.passage.prefix
    for vector, text in zip(found, behaviour.texts, strict=bool(found)):
        told = [one for batch in inputs for one in batch if (prefix + text).startswith(one)]
        expected = np.array(server.vector(told[-1]))
        assert same(vector, expected / np.linalg.norm(expected))


@pytest.mark.parametrize(
    ("options", "query", "passage"),
    [
        (PREFIXES, {"input": ["query: tea"]}, {"input": ["passage: tea"]}),
        (
            EndpointOptions(
                query=TextRole(body={"input_type": "search_query"}),
                passage=TextRole(body={"input_type": "search_document", "truncate": "END"}),
            ),
            {"input": ["tea"], "input_type": "search_query"},
            {"input": ["tea"], "input_type": "search_document", "truncate": "END"},
        ),
    ],
)
async def test_queries_and_stored_texts_have_forms_of_their_own(
    server: FakeOpenAI, options: EndpointOptions, query: dict[str, object], passage: dict[str, object]
) -> None:
    embedder = client(server, options=options)
    asked = await embedder.embed_query("tea")
    [stored] = await embedder.embed_texts(["tea"])
    assert same(await embedder.embed_query("tea"), asked)
    await embedder.close()
    fixed = {"model": "any-model", "encoding_format": "float"}
    assert server.requests == [query | fixed, passage | fixed]
    assert same(asked, stored) == (query["input"] == passage["input"])


async def test_what_was_learnt_holds_for_later_requests(server: FakeOpenAI) -> None:
    server.manner = Manner(most_characters=200, most_items=2, refuses={"dimensions": "dimensions: not supported"})
    embedder = client(server, options=EndpointOptions(send_dimensions=True))
    await embedder.embed_texts([ENGLISH, *SHORT])
    server.requests.clear()
    await embedder.embed_texts([ENGLISH, *SHORT])
    await embedder.close()
    assert [len(request["input"]) for request in server.requests] == [2, 2, 2]
    assert not any("dimensions" in request for request in server.requests)


async def test_a_fault_that_tells_of_a_length_is_no_lesson(server: FakeOpenAI) -> None:
    server.manner = Manner(most_characters=0)
    embedder = client(server)
    with pytest.raises(EmbedderRefused):
        await embedder.embed_texts([ENGLISH])
    server.manner = Manner()
    server.requests.clear()
    await embedder.embed_texts([ENGLISH])
    await embedder.close()
    assert [request["input"] for request in server.requests] == [[ENGLISH]]


@pytest.mark.parametrize("told", ["the vector has no room: its dimension is 4", "input should be a valid array"])
async def test_a_fault_that_names_a_parameter_or_a_batch_is_no_lesson(server: FakeOpenAI, told: str) -> None:
    server.manner = Manner(refuses={"model": told}, refusal_status=422)
    embedder = client(server, options=EndpointOptions(send_dimensions=True))
    with pytest.raises(EmbedderRefused):
        await embedder.embed_texts(SHORT)
    server.manner = Manner()
    server.requests.clear()
    await embedder.embed_texts(SHORT)
    await embedder.close()
    assert [(request["input"], request.get("dimensions")) for request in server.requests] == [(SHORT, 64)]


async def test_a_key_file_is_read_again_when_it_changes(server: FakeOpenAI, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first\n")
    embedder = client(server, key=KeyFile("MNEMA_EMBEDDING_API_KEY_FILE", file))
    server.manner = Manner(key="first")
    await embedder.embed_texts(["text"])
    file.write_text("the second\n")
    server.manner = Manner(key="the second")
    await embedder.embed_texts(["text"])
    assert len(server.requests) == 2
    file.unlink()  # the last key stays in use
    await embedder.embed_texts(["text"])
    await embedder.close()


async def test_a_refused_key_is_read_again_once(server: FakeOpenAI) -> None:
    class ReplacedKey(FixedKey):
        keys = iter(["second", "third"])

        def refresh_key(self) -> bool:
            self._key = next(self.keys)
            return True

    embedder = client(server, key=ReplacedKey("first"))
    server.manner = Manner(key="second")
    await embedder.embed_texts(["text"])
    assert len(server.requests) == 2
    server.manner = Manner(key="another")
    with pytest.raises(EmbedderUnavailable, match="HTTP 401"):
        await embedder.embed_texts(["text"])
    await embedder.close()
    assert len(server.requests) == 4


@pytest.mark.parametrize("content", [None, "", "two words\nof two lines", "clé", "x" * 20_000])
def test_a_key_file_without_a_key(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"^MNEMA_X_API_KEY_FILE: ") as caught:
        open_key("MNEMA_X_API_KEY", "", str(file))
    assert not content or content not in str(caught.value)


def test_a_key_file_that_becomes_unusable_is_told_and_not_used(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first")
    source = open_key("MNEMA_X_API_KEY", "unused", str(file))
    file.write_text("clé, which no header can carry")
    with capture_logs() as logs:
        assert source.current_key() == source.current_key() == "first"
    assert [line["event"] for line in logs] == ["key_file_unusable"]


def test_a_body_cannot_replace_the_texts() -> None:
    with pytest.raises(ConfigError, match="MNEMA_EMBEDDING_QUERY_BODY: must not have input, model"):
        EndpointOptions(query=TextRole(body={"input": [], "model": "x"}))


@pytest.mark.parametrize("piece", ["a", "1", "word ", "東京", "🦊", "\ud800", " ", "e\u0301"])
def test_a_cut_text_is_the_beginning_and_fits(piece: str) -> None:
    text = piece * (1_048_576 // len(piece))
    assert estimate_text_tokens(text) > 1000
    cut = cut_to_tokens(text, 1000)
    assert cut
    assert text.startswith(cut)
    assert 900 <= estimate_text_tokens(cut) <= 1000
    assert cut_to_tokens(cut, 1000) == cut


def test_a_text_is_cut_at_a_word_end() -> None:
    assert cut_to_tokens("The launch is on Friday", 6) == "The launch is on"
    assert cut_to_tokens("x" * 500, 6) == "x" * 20
    assert cut_to_tokens("東京で会う", 1) == "東"


@pytest.mark.parametrize("piece", [b"max ", b"token ", b"input max ", b"\xff", b"too long"])
def test_a_refusal_is_read_up_to_a_size(piece: bytes) -> None:
    filler = piece * (READ_BYTES // len(piece) + 1)
    assert "dimensions" not in read_refusal(httpx2.Response(400, content=filler + b"dimensions " * 100_000)).parameters
    assert not read_refusal(httpx2.Response(500, content=b"maximum retries of the input exceeded")).too_large


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "2", "retry-after-ms": "20"}, 0.02),
        (FAR_DATE, 300.0),
        ({"retry-after": FAR_DATE["retry-after"]}, None),
    ],
)
def test_the_wait_that_an_endpoint_asks_for(headers: dict[str, str], expected: float | None) -> None:
    assert asked_wait_s(httpx2.Response(429, headers=headers)) == expected
