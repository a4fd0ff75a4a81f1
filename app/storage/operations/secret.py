"""The fingerprint of the installation's secret. It tells two secrets apart but does not reveal either."""

import hashlib
import hmac

import asyncpg

from app.domain.errors import ConfigError
from app.storage.uow import UnitOfWork

MISMATCH_TEXT = (
    "MNEMA_SECRET_KEY differs from the secret that this database is used with, so erased text would not be recognised. "
    "Give every replica the same secret; to change it on purpose, run `mnema secret accept`"
)
_READ_FINGERPRINT = "SELECT secret_fingerprint FROM installation"
STORE_FINGERPRINT = "INSERT INTO installation (secret_fingerprint) VALUES ($1) ON CONFLICT DO NOTHING"


def secret_fingerprint(secret: bytes) -> bytes:
    """Return 32 bytes that do not reveal the secret."""
    return hmac.digest(secret, b"fingerprint of the installation's secret", hashlib.sha256)


async def require_secret(uow: UnitOfWork, secret: bytes, *, note: bool) -> None:
    """Raise ConfigError if the database is used with another secret. If it knows none yet, `note` records this one."""
    mark = secret_fingerprint(secret)
    try:
        rows = await uow.call_definer(_READ_FINGERPRINT)
        if not rows and note:
            await uow.call_definer(STORE_FINGERPRINT, mark)
            rows = await uow.call_definer(_READ_FINGERPRINT)  # another replica may have been first
    except (asyncpg.UndefinedTableError, asyncpg.ReadOnlySQLTransactionError):  # other checks report these
        return
    if rows and rows[0]["secret_fingerprint"] != mark:
        raise ConfigError(MISMATCH_TEXT)
