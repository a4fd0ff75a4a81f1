"""Search by words in every language: folding, punctuation, and scripts without blanks."""

import asyncpg
import httpx
import pytest

from tests.api.calls import remember
from tests.conftest import Database

STORED = {
    "zh": "玛雅对花生过敏。",
    "ja": "マヤは毎週金曜日に電車でルンドへ行きます。",
    "th": "มายาแพ้ถั่วลิสง",
    "ko": "마야는 첼로를 연주합니다.",
    "ru": "Майя любит ЁЛКИ и чай.",
    "el": "Η Μάγια μένει στην Αθήνα.",
    "es": "¿Qué come Maya? Plátanos y café.",
    "ar": "مايا تُحِبُّ القهوة، والشاي.",
    "hi": "माया को मूंगफली से एलर्जी है।",
    "fr": "Maya étudie à l’université d’Évry.",
}


@pytest.mark.parametrize(
    ("words", "language"),
    [
        ("花生", "zh"),
        ("花生过敏", "zh"),
        ("電車", "ja"),
        ("ﾏﾔ 電車", "ja"),
        ("ถั่ว", "th"),
        ("첼로", "ko"),
        ("елки", "ru"),
        ("ЧАЙ", "ru"),
        ("αθηνα", "el"),
        ("platanos cafe", "es"),
        ("QUÉ", "es"),
        ("تحب والشاي", "ar"),
        ("मूंगफली है", "hi"),
        ("evry", "fr"),
        ('"花生过敏"', "zh"),
        ("花生 -電車", "zh"),
        ("花生 -毎週金曜", "zh"),
    ],
)
async def test_words_are_found_however_they_are_spelt(http: httpx.AsyncClient, words: str, language: str) -> None:
    ids = {name: (await remember(http, text=text))["id"] for name, text in STORED.items()}
    found = await http.get("/memory", params={"q": words})
    assert [memory["id"] for memory in found.json()["items"]] == [ids[language]]


STEMMED = {
    "de": ("Maya liebt lange Wanderungen in den Bergen.", "Wanderung im Berg", "wanderung -berge"),
    "es": ("A Maya le gustan las canciones tristes.", "la canción triste", "canción -tristes"),
    "fr": ("Maya a préparé des crêpes bretonnes.", "préparer une crêpe bretonne", "crêpe -bretonne"),
    "ru": ("Майя собирает старые марки.", "собирать старую марку", "марка -старой"),
    "sv": ("Maya köpte gröna stolar i fredags.", "en grön stol", "grön -stolen"),
}
"""A text in its language, other forms of its words, and a search that excludes it by a form of a word."""


@pytest.mark.parametrize("language", STEMMED)
async def test_words_are_stemmed_by_the_language_of_their_text(http: httpx.AsyncClient, language: str) -> None:
    ids = {name: (await remember(http, text=text, language=name))["id"] for name, (text, _, _) in STEMMED.items()}
    _, forms, excluding = STEMMED[language]
    for words, expected in ((forms, [ids[language]]), (excluding, [])):
        found = await http.get("/memory", params={"q": words, "language": language})
        assert [memory["id"] for memory in found.json()["items"]] == expected, words


async def test_a_question_is_stemmed_by_the_language_it_is_told_to_have(http: httpx.AsyncClient) -> None:
    german = await remember(http, text=STEMMED["de"][0])
    found = await http.get("/memory", params={"q": "Welche Wanderung liebt Maya im Sommer oder auf welchem Berg"})
    assert [memory["id"] for memory in found.json()["items"]] == []
    found = await http.get("/memory", params={"q": "die Wanderung auf einem Berg"})
    assert [memory["id"] for memory in found.json()["items"]] == [german["id"]]


async def test_words_as_they_are_find_a_text_whatever_language_the_query_has(http: httpx.AsyncClient) -> None:
    german = await remember(http, text=STEMMED["de"][0])
    for words in ("Wanderungen", "the Wanderungen", '"lange Wanderungen"'):
        found = await http.get("/memory", params={"q": words})
        assert [memory["id"] for memory in found.json()["items"]] == [german["id"]], words


async def test_another_language_stems_the_words_anew(http: httpx.AsyncClient) -> None:
    memory_id = (await remember(http, text=STEMMED["de"][0], language="und"))["id"]
    forms = {"q": "eine Wanderung"}
    assert (await http.get("/memory", params=forms)).json()["items"] == []
    await http.patch(f"/memory/{memory_id}", json={"language": None})
    assert [memory["id"] for memory in (await http.get("/memory", params=forms)).json()["items"]] == [memory_id]


@pytest.mark.parametrize(
    "text",
    [
        "花" * 900,
        "é" * 1200,
        "\u0301 \u0307 x",
        "it's a 'quoted' back\\slash \\'",
        "Ürün’ün 100 € 🎉 fiyatı",
        "https://x.de/ä?b='c'&d=\\",
        "ﷺ ﷺ ŉ Ǆ",
        "x\x1fy",
    ],
)
async def test_odd_texts_have_words_in_each_language(database: Database, text: str) -> None:
    connection = await asyncpg.connect(database.superuser)
    try:
        for language in ("de", "tr", "ar", "hi", "hy", "yi", "zh"):
            words, query, search = await connection.fetchrow(
                "SELECT text_words($1, $2), query_words($2 || E'\\x1f' || $1), parse_words($2 || E'\\x1f' || $1)",
                text,
                language,
            )
            assert words is not None
            assert search is not None
            assert await connection.fetchval("SELECT any_word($1)", f"{language}\x1f{text}") is not None or not query
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "query",
    [
        "Who drinks oat milk with Maya?",
        "It's a \\ test of early-march, www.site.example/a'b?x=y z&w | <b>v</b> u!",
        "mail a@b.example from /usr/lib/x at 3.14 or -5 e-6",
        "café naïve Œuvre 花生过敏 Ёлка 👍 it''s",
        " ".join(f"word{number}" for number in range(70)),
        "the of and",
        "",
    ],
)
async def test_a_query_without_a_language_asks_for_each_of_its_words(database: Database, query: str) -> None:
    connection = await asyncpg.connect(database.superuser)
    words = await connection.fetchval("SELECT query_words($1)", query)
    asked = await connection.fetchval("SELECT any_word($1)::text", query)
    await connection.close()
    assert sorted(words) == (sorted(asked.split(" | ")) if asked is not None else [])


async def test_a_query_leaves_out_what_its_language_leaves_out(database: Database) -> None:
    connection = await asyncpg.connect(database.superuser)
    words = await connection.fetchval("SELECT query_words($1)", "de\x1fWas mögen die Kinder nicht an den Tagen?")
    unsaid = await connection.fetchval("SELECT query_words($1)", "Was mögen die Kinder nicht an den Tagen?")
    await connection.close()
    assert words == ["'mog'", "'mogen'", "'kind'", "'kinder'", "'tag'", "'tagen'"]
    assert unsaid == ["'mogen'", "'die'", "'kinder'", "'nicht'", "'den'", "'tagen'"]


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ("Maya's café", "Maya's cafe"),
        ("plain ASCII stays: -it's", "plain ASCII stays: -it's"),
        ("花生过敏", " 花生 生过 过敏 "),
        ("佐々木さん", " 佐々 々木 木さ さん "),
        ("party🎉 50€", "party 🎉  50 € "),
        ("co\u200bffee", "coffee"),
        ("٣٤٥ علی", "345 علي"),
        ("Diyarbakır", "Diyarbakir"),
        ("我 爱 tea花", " 我   爱  tea 花 "),
        ("ＡＢＣ １２", "ABC 12"),
        ("がぎ", " がぎ "),
        ("क़लम", "कलम"),
    ],
)
async def test_stored_texts_and_queries_have_one_form(database: Database, text: str, searched: str) -> None:
    connection = await asyncpg.connect(database.superuser)
    found = await connection.fetchval("SELECT searched_text($1)", text)
    await connection.close()
    assert found == searched


@pytest.mark.parametrize(
    ("words", "found"),
    [("Jean-Émile", 1), ("Büro-Überschrift", 1), ("Suppe -Émile", 1), ("Suppe -“Onkel Otto”", 2), ("Suppe", 3)],
)
async def test_a_dash_inside_a_word_excludes_nothing(http: httpx.AsyncClient, words: str, found: int) -> None:
    await remember(http, text="Suppe von Jean-Émile.")
    await remember(http, text="Suppe von Onkel Otto.")
    await remember(http, text="Suppe und Büro-Überschrift von Émile.")
    assert len((await http.get("/memory", params={"q": words})).json()["items"]) == found


async def test_a_dash_excludes_words_of_any_script(http: httpx.AsyncClient) -> None:
    kept = await remember(http, text="花生 in the cupboard.")
    await remember(http, text="花生 and 毎週金曜 together.")
    found = await http.get("/memory", params={"q": "花生 -毎週金曜"})
    assert [memory["id"] for memory in found.json()["items"]] == [kept["id"]]


async def test_the_longest_text_of_one_run_is_stored_and_found(http: httpx.AsyncClient) -> None:
    turn = {"user_id": "maya", "thread_id": "long", "role": "user", "content": "花" * 31_000 + "生"}
    assert (await http.post("/turns", json=turn)).status_code == 201
    assert len((await http.get("/memory", params={"q": "花生"})).json()["items"]) == 1
