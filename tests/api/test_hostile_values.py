"""Values that a parser of the database refuses, in every parameter and field of every route: never a 500."""

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from tests.api.calls import listed, remember
from tests.api.route_catalog import NUMBER_PLACES, Operation, fill_places, guarded
from tests.effort import DEEP
from tests.usecases.crowd import SeededEmbedder

TEXTS = [
    *("-" * 33, "-(" * 40, '"' * 41 + "!(" * 40, "a & | ! <-> b :*", "%_\\", "'$$;", '{"a":', "$.a[*(((", "[[:x:]]{9}"),
    *("\x00", "\ud800", "\U0010ffff", "x" * 3000, "k:" + "9" * 400, "NaN", "-Infinity", "1e400", "9" * 19),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59-14:00", "294277-01-01", "infinity", "-2147483649", str(uuid4())),
]
NUMBERS = [-(2**31) - 1, 2**31 - 1, 2**31, 2**62, 2**63, 10**400, -1e308]
UNAVAILABLE = {"no_upstream"}
PARTS = 4


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model."""
    return SeededEmbedder()


async def broken_by(
    client: httpx.AsyncClient, operation: Operation, places: dict[str, str] | None = None, **sent: Any
) -> list[str]:
    """Send a request; return the answer if it is a failure of the server."""
    try:
        response = await operation.call(client, places or fill_places(str(uuid4())), **sent)
    except (UnicodeEncodeError, ValueError, httpx.InvalidURL):  # no client can send it
        return []
    if response.status_code < 500 or response.json()["code"] in UNAVAILABLE:
        return []
    return [f"{operation.name} {str(sent)[:200]}: {response.status_code} {response.text[:200]}"]


def hostile_places(texts: list[str]) -> list[dict[str, str]]:
    """Return places of paths that are no ids, names or numbers."""
    quoted = [quote(text, safe="", errors="surrogatepass") for text in texts]
    numbers = [fill_places(str(uuid4())) | dict.fromkeys((*NUMBER_PLACES, "rank"), str(n)) for n in NUMBERS[:-2]]
    return [
        *(fill_places(text, text) for text in quoted),
        *(fill_places(str(uuid4()), text) for text in quoted),
        *numbers,
    ]


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_value_of_any_place_parameter_or_field_breaks_a_route(http: httpx.AsyncClient, part: int) -> None:
    """Try paths and bodies with a quarter of the texts, another one for each route, unless the run is deep."""
    await remember(http, "Maya plants foo.", thread_id="t", user_id="t")
    broken = []
    for number, operation in enumerate((await guarded(http))[part::PARTS]):
        texts = TEXTS if DEEP else [TEXTS[0], *TEXTS[1 + number % 4 :: 4]]
        for places in hostile_places(texts) if "{" in operation.path else []:
            broken += await broken_by(http, operation, places)
        for query in [*operation.variants(TEXTS), *({name: n} for name in operation.queries for n in NUMBERS)]:
            broken += await broken_by(http, operation, params=query)
        for content in [*operation.bodies(texts), *operation.numbered(NUMBERS)]:
            broken += await broken_by(http, operation, content=content)
    assert broken == []


DASHED = ["---- foo", "-" * 40 + "foo", "- " * 40 + "foo", "-(" * 40 + "foo", "-!" * 40 + " foo", '"foo"-']


@pytest.mark.parametrize("words", DASHED)
async def test_dashes_that_exclude_no_word_are_no_operators(http: httpx.AsyncClient, words: str) -> None:
    await remember(http, "Maya plants foo.")
    assert [item["text"] for item in await listed(http, q=words)] == ["Maya plants foo."]


async def test_a_dash_before_a_word_or_a_phrase_still_excludes_it(http: httpx.AsyncClient) -> None:
    for text in ("Maya plants well-kept basil.", "Maya plants old basil in May."):
        await remember(http, text)
    for words in ("basil -old", 'basil -"old basil"', "well-kept", 'basil -"in may"'):
        assert [item["text"] for item in await listed(http, q=words)] == ["Maya plants well-kept basil."], words
    assert await listed(http, q="-" * 33) == []
