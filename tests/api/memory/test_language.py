"""The language of a memory: given or told from its text, returned, filtered by, and told anew from a new text."""

import httpx

from tests.api.calls import ask, history_of, refused, remember, say

GERMAN = "Maya wohnt seit dem Frühjahr in einer kleinen Wohnung am Fluss."
ENGLISH = "Maya plays the cello in the orchestra of her school."


async def language_of(http: httpx.AsyncClient, memory_id: str) -> str | None:
    language: str | None = (await http.get(f"/memory/{memory_id}")).json()["language"]
    return language


async def test_the_language_is_told_from_the_text_unless_it_is_given(http: httpx.AsyncClient) -> None:
    german = await remember(http, text=GERMAN)
    given = await remember(http, text="Taxi, Hotel, Bar.", language="it")
    unsaid = await remember(http, text="ACME-4471 / B12")
    assert [await language_of(http, memory["id"]) for memory in (german, given, unsaid)] == ["de", "it", "und"]
    [entry] = await history_of(http, german["id"])
    assert entry["meta"]["after"]["language"] == "de"


async def test_filters_find_memories_by_their_language(http: httpx.AsyncClient) -> None:
    german = await remember(http, text=GERMAN)
    await remember(http, text=ENGLISH)
    listed = await http.get("/memory", params={"language": "de"})
    assert [memory["id"] for memory in listed.json()["items"]] == [german["id"]]
    filters = {"user_id": "maya", "language": "de"}
    answer = await ask(http, query="Where does Maya live?", filters=filters, **{"return": "full"})
    assert [(item["id"], item["language"]) for item in answer["items"]] == [(german["id"], "de")]


async def test_a_new_text_has_a_new_language(http: httpx.AsyncClient) -> None:
    memory_id = (await remember(http, text=GERMAN))["id"]
    assert (await http.patch(f"/memory/{memory_id}", json={"importance": 4})).json()["language"] == "de"
    assert (await http.patch(f"/memory/{memory_id}", json={"text": ENGLISH})).json()["language"] == "en"
    assert (await http.patch(f"/memory/{memory_id}", json={"language": "gd"})).json()["language"] == "gd"
    assert (await http.patch(f"/memory/{memory_id}", json={"language": None})).json()["language"] == "en"
    both = {"text": GERMAN, "language": None}
    assert (await http.patch(f"/memory/{memory_id}", json=both)).json()["language"] == "de"


async def test_a_write_that_merges_keeps_the_language_it_names(http: httpx.AsyncClient) -> None:
    first = await remember(http, text="Maya trinkt Tee aus Assam.", language="nl")
    again = await remember(http, text="maya trinkt tee aus assam", language="fr", importance=5)
    assert (again["action"], again["id"]) == ("updated", first["id"])
    assert await language_of(http, first["id"]) == "fr"


async def test_what_is_no_code_of_a_language_is_refused(http: httpx.AsyncClient) -> None:
    refused(await http.get("/memory", params={"language": "German"}), 422, "invalid_request")
    unknown = refused(await http.get("/memory", params={"language": "zz"}), 422, "invalid_request")
    assert unknown["errors"][0]["loc"] == ["query", "language"]
    assert "a code of ISO 639 such as de" in unknown["detail"]
    for code in ("zz", "deu", "qaa"):
        refused(await http.post("/memory", json={"text": GERMAN, "language": code}), 422, "invalid_request")
    refused(await http.post("/memory", json={"text": GERMAN, "language": "de-AT"}), 422, "invalid_request")


async def test_a_turn_has_the_language_it_was_spoken_in(http: httpx.AsyncClient) -> None:
    stored = await say(http, "¿Dónde puedo comprar un billete de tren?")
    assert await language_of(http, stored["id"]) == "es"


async def test_known_codes_have_two_letters_or_three(http: httpx.AsyncClient) -> None:
    for number, code in enumerate(("de", "nb", "yue", "und")):
        stored = await remember(http, text=f"Taxi, Hotel, Bar {number}.", language=code)
        assert await language_of(http, stored["id"]) == code
