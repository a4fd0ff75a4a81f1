"""The installation's secret, as far as the database knows it: by a fingerprint that tells two apart and neither."""

import hashlib
import hmac

import asyncpg

from app.domain.errors import ConfigError
from app.storage.uow import UnitOfWork

MISMATCH_TEXT = (
    "MNEMA_SECRET_KEY is not the one that this database is used with: text erased under that one would not be known "
    "again. Give every replica the same; to change it on purpose, run `mnema secret accept`"
)
_READ_FINGERPRINT = "SELECT secret_fingerprint FROM installation"
STORE_FINGERPRINT = "INSERT INTO installation (secret_fingerprint) VALUES ($1) ON CONFLICT DO NOTHING"


def secret_fingerprint(secret: bytes) -> bytes:
    """32 bytes from which the secret cannot be found."""
    return hmac.digest(secret, b"fingerprint of the installation's secret", hashlib.sha256)


async def require_secret(uow: UnitOfWork, secret: bytes, *, note: bool) -> None:
    """Raise ConfigError if the database is used with another secret; `note`: the first one is kept."""
    mark = secret_fingerprint(secret)
    try:
        known = await uow.call_definer(_READ_FINGERPRINT)
        if not known and note:
            await uow.call_definer(STORE_FINGERPRINT, mark)
            known = await uow.call_definer(_READ_FINGERPRINT)  # perhaps another replica's, which was first
    except (asyncpg.UndefinedTableError, asyncpg.ReadOnlySQLTransactionError):  # other checks say so
        return
    if known and known[0]["secret_fingerprint"] != mark:
        raise ConfigError(MISMATCH_TEXT)
