"""Encryption of the keys that tenants give for their chat endpoints."""

from base64 import urlsafe_b64encode
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PURPOSE = b"mnema: key of a tenant's chat endpoint, 1"
KEPT_TURNS = b"mnema: turns of a tenant that wait for the database, 1"


class KeyCipher:
    """Encryption with a key for each tenant and URL, derived from the installation's secret.

    Whoever copies a row to another tenant, or changes its URL, has a row that nobody can decrypt. Keys that were
    encrypted with the `former` secret can be decrypted too; new ones are encrypted with the present secret.
    """

    def __init__(self, secret: bytes, former: bytes | None = None) -> None:
        self._secrets = (secret,) if former is None else (secret, former)

    def encrypt_key(self, tenant_id: UUID, base_url: str, api_key: str) -> bytes:
        """Return the stored form of a key; empty for an empty key."""
        return self._fernet(tenant_id, base_url).encrypt(api_key.encode()) if api_key else b""

    def decrypt_key(self, tenant_id: UUID, base_url: str, stored: bytes) -> str | None:
        """Return a key from its stored form, None if none of the secrets decrypts it."""
        if not stored:
            return ""
        try:
            return self._fernet(tenant_id, base_url).decrypt(stored).decode()
        except InvalidToken:
            return None

    def _fernet(self, tenant_id: UUID, base_url: str) -> MultiFernet:
        return self._derive_fernet(PURPOSE, tenant_id.bytes, base_url.encode())

    def of_kept_turns(self, tenant_id: UUID) -> MultiFernet:
        """Return the encryption of a tenant's turns that wait on a server's disk."""
        return self._derive_fernet(KEPT_TURNS, tenant_id.bytes)

    def _derive_fernet(self, *info: bytes) -> MultiFernet:
        return MultiFernet([Fernet(_derive_key(secret, b"\0".join(info))) for secret in self._secrets])


def _derive_key(secret: bytes, info: bytes) -> bytes:
    return urlsafe_b64encode(HKDF(SHA256(), length=32, salt=None, info=info).derive(secret))
