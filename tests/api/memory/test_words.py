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
