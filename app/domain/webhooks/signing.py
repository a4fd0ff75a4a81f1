"""Signatures of Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over id, time and body."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from app.domain.errors import InvalidInput

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = (24, 64)
"""The least and the most bytes of a secret."""


def encode_secret(key: bytes) -> str:
    """Return a secret as it is shown."""
    return PREFIX + base64.b64encode(key).decode()


def decode_secret(secret: str) -> bytes:
    """Return the key of a secret. Raise InvalidInput, which does not quote it."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    least, most = SECRET_BYTES
    if not secret.startswith(PREFIX) or not least <= len(key) <= most:
        raise InvalidInput(f"secret must be {PREFIX} and then {least} to {most} bytes in base64")
    return key


def sign_headers(message_id: str, seconds: int, body: bytes, secrets: Sequence[str]) -> list[tuple[str, str]]:
    """Return the headers of a message, with one signature for each secret."""
    signed = f"{message_id}.{seconds}.".encode() + body
    signatures = (hmac.digest(decode_secret(secret), signed, hashlib.sha256) for secret in secrets)
    return [
        ("content-type", "application/json"),
        ("webhook-id", message_id),
        ("webhook-timestamp", str(seconds)),
        ("webhook-signature", " ".join(f"v1,{base64.b64encode(one).decode()}" for one in signatures)),
    ]
