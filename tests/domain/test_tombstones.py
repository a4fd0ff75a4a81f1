"""Tombstones: an erased text is recognised, and nobody can read it from its hash."""

import stat
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.domain.text_rules import text_key
from app.domain.tombstones import compute_tombstone, compute_tombstones

SECRET = b"the installation's secret"
TENANT = UUID("01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11")
OTHER = UUID("01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a12")


def of(text: str, *, secret: bytes = SECRET, tenant: UUID = TENANT, user: str = "maya") -> list[bytes]:
    """Return the tombstones of one text."""
    return compute_tombstones(secret, tenant, user, [text], [])


@pytest.mark.parametrize(
    "same",
    [
        *("Maya lives in Porto.", "maya LIVES  in\nporto", "\u200bMaya lives in Porto!", "  Maya lives in Porto …"),
        *(
            "Maya lives in Porto\U000e0020",
            "Maya li\ufe0fves in Porto",
            "Maya lives in Po\u200drto",
            "\u3164Maya lives in Porto",
        ),
        *('"Maya lives in Porto."', "“Maya lives in Porto!”", "'Maya lives in Porto'", "«Maya lives in Porto?» "),
        *("(Maya lives in Porto)", "「Maya lives in Porto。」", "Ｍａｙａ lives in Porto", '... "Maya" lives in Porto'),
    ],
)
def test_a_text_is_known_again_however_it_is_spaced_spelt_or_ended(same: str) -> None:
    assert of(same) == of("Maya lives in Porto")


OTHERS = [
    "Maya lives in Faro.",
    "Maya does not live in Porto.",
    "Maya lives, in Porto",
    '"Porto"',
    "Maya lives in Porto :(",
]


@pytest.mark.parametrize("other", OTHERS)
def test_another_text_is_not_taken_for_it(other: str) -> None:
    assert of(other) != of("Maya lives in Porto.")


@given(st.text("aß ẞSsIİ.,!?:;()\"'“”8=-^'ﬁ１。" + "\u200d", min_size=1, max_size=12), st.text(".!?…。 ", max_size=3))
def test_texts_of_one_key_have_one_tombstone(text: str, end: str) -> None:
    for same in (text + end, text.upper(), text.lower(), f" {text} "):
        if text_key(same) == text_key(text):
            assert of(same) == of(text)


def test_tombstones_of_two_users_tenants_or_installations_have_nothing_in_common() -> None:
    text = "Maya lives in Porto."
    hashes = [of(text), of(text, user="ben"), of(text, tenant=OTHER), of(text, secret=b"another")]
    assert len({hash_ for one in hashes for hash_ in one}) == len(hashes)


def test_a_turn_and_a_text_of_the_same_name_are_two_things() -> None:
    turn, text = (
        compute_tombstones(SECRET, TENANT, "maya", [], ["t1"]),
        compute_tombstones(SECRET, TENANT, "maya", ["t1"], []),
    )
    assert set(turn).isdisjoint(text)
    assert compute_tombstones(SECRET, TENANT, "maya", ["t1"], ["t1"]) == sorted(turn + text)


def test_neighbouring_parts_of_a_tombstone_never_run_into_each_other() -> None:
    parts = [("a", "text", b"xb"), ("a", "textx", b"b"), ("atext", "", b"xb"), ("a", "tex", b"txb")]
    assert len({compute_tombstone(SECRET, TENANT, *part) for part in parts}) == len(parts)


def test_what_is_not_there_leaves_no_tombstone_and_what_is_there_twice_leaves_one() -> None:
    assert compute_tombstones(SECRET, TENANT, "maya", [None, ""], [None, ""]) == []
    texts = ["Maya lives in Porto.", "maya lives in porto", None]
    assert compute_tombstones(SECRET, TENANT, "maya", texts, []) == of("Maya lives in Porto.")


def test_a_tombstone_is_32_bytes_that_hold_nothing_of_the_text() -> None:
    [hash_] = of("Maya lives in Porto.")
    assert (len(hash_), b"Porto" in hash_) == (32, False)


def test_the_secret_of_an_embedded_home_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    first = Settings(home=tmp_path / "home", embedded=True).erasure_secret()
    assert len(first) == 32
    assert Settings(home=tmp_path / "home", embedded=True).erasure_secret() == first
    assert Settings(home=tmp_path / "another", embedded=True).erasure_secret() != first
    [file] = (tmp_path / "home").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


def test_a_given_secret_goes_before_the_one_in_the_home(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", secret_key=SecretStr("s" * 32), embedded=True)
    assert settings.erasure_secret() == b"s" * 32
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("given", "embedded"), [("", False), ("s" * 31, False), ("é" * 15, False), ("s", True)])
def test_a_secret_that_is_missing_or_short_is_refused_with_how_to_make_one(
    tmp_path: Path, given: str, embedded: bool
) -> None:
    settings = Settings(home=tmp_path / "home", secret_key=SecretStr(given), embedded=embedded)
    with pytest.raises(ConfigError, match=r"MNEMA_SECRET_KEY.* at least 32 bytes.* `openssl rand -hex 32`"):
        settings.erasure_secret()
    assert not (tmp_path / "home").exists(), "nothing is made in its place"
