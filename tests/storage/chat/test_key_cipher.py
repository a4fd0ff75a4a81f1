"""The encryption of endpoints' keys: for one tenant and URL, under the present or the former secret."""

from uuid import uuid4

import pytest

from app.storage.chat.key_cipher import KeyCipher

OLD, NEW = b"o" * 32, b"n" * 32
URL = "https://api.openai.com/v1"


def test_a_key_comes_back_for_its_own_tenant_and_url_alone() -> None:
    cipher, tenant = KeyCipher(NEW), uuid4()
    stored = cipher.encrypt_key(tenant, URL, "sk-secret")
    assert b"sk-secret" not in stored
    assert stored != cipher.encrypt_key(tenant, URL, "sk-secret")
    assert cipher.decrypt_key(tenant, URL, stored) == "sk-secret"
    assert cipher.decrypt_key(uuid4(), URL, stored) is None
    assert cipher.decrypt_key(tenant, "https://evil.example/v1", stored) is None
    assert KeyCipher(OLD).decrypt_key(tenant, URL, stored) is None


@pytest.mark.parametrize("place", [0, 20, -1])
def test_a_changed_or_cut_row_is_unreadable(place: int) -> None:
    cipher, tenant = KeyCipher(NEW), uuid4()
    stored = bytearray(cipher.encrypt_key(tenant, URL, "sk-secret"))
    assert cipher.decrypt_key(tenant, URL, bytes(stored[:-5])) is None
    stored[place] = ord("A") if stored[place] != ord("A") else ord("B")
    assert cipher.decrypt_key(tenant, URL, bytes(stored)) is None
    assert cipher.decrypt_key(tenant, URL, b"\xff\x00") is None


def test_no_key_is_stored_as_nothing() -> None:
    assert KeyCipher(NEW).encrypt_key(uuid4(), URL, "") == b""
    assert KeyCipher(NEW).decrypt_key(uuid4(), URL, b"") == ""


def test_the_former_secret_reads_and_the_present_one_writes() -> None:
    tenant = uuid4()
    stored = KeyCipher(OLD).encrypt_key(tenant, URL, "sk-secret")
    both = KeyCipher(NEW, OLD)
    assert both.decrypt_key(tenant, URL, stored) == "sk-secret"
    again = both.encrypt_key(tenant, URL, "sk-secret")
    assert KeyCipher(NEW).decrypt_key(tenant, URL, again) == "sk-secret"
    assert KeyCipher(OLD).decrypt_key(tenant, URL, again) is None
