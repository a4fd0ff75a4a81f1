"""A person's session: the API key and its end, encrypted in a cookie. Nothing of it is stored on the server."""

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

COOKIE = "mnema_console"
FORM_COOKIE = "mnema_console_form"
COOKIE_PATH = "/console"
SESSION = "mnema.session"
"""The key of the scope under which pages find their session."""
LONGEST_KEY = 512
LONGEST_COOKIE = 4096


@dataclass(frozen=True)
class Session:
    """A signed-in session: a random id, the person's key and the time at which it ends.

    `is_operator`: the key is the operator's, which opens tenants and keys alone.
    """

    id: str
    api_key: str = field(repr=False)
    expires_at: datetime
    is_operator: bool = False

    def is_over(self, now: datetime) -> bool:
        """Tell whether its hours are over."""
        return now >= self.expires_at


def read_clock() -> datetime:
    """Return the present time, UTC."""
    return datetime.now(UTC)


class SessionCookies:
    """The encryption of sessions into cookies, and back. `former` secrets decrypt only."""

    def __init__(self, secret: str, former: str = "", hours: float = 12) -> None:
        self._fernet = MultiFernet([Fernet(_derive_key(s, b"session cookie")) for s in (secret, former) if s])
        self._lifetime = timedelta(hours=hours)

    def create_session(self, api_key: str, now: datetime, *, is_operator: bool = False) -> Session:
        """Return a new session of this key."""
        return Session(secrets.token_urlsafe(18), api_key, now + self._lifetime, is_operator)

    def seal_session(self, session: Session) -> str:
        """Return the cookie's value."""
        content = {
            "i": session.id,
            "k": session.api_key,
            "e": session.expires_at.timestamp(),
            "o": session.is_operator,
        }
        return self._fernet.encrypt(json.dumps(content).encode()).decode()

    def open_session(self, value: str, now: datetime) -> Session | None:
        """Return the session of a cookie's value; None if it is forged, damaged or over."""
        if not value or len(value) > LONGEST_COOKIE:
            return None
        try:
            content = json.loads(self._fernet.decrypt(value.encode()))
            ends = datetime.fromtimestamp(content["e"], UTC)
            session = Session(str(content["i"]), str(content["k"]), ends, bool(content["o"]))
        except (InvalidToken, ValueError, KeyError, TypeError):
            return None
        return None if session.is_over(now) else session


class FormTokens:
    """Tokens against forged forms: each is bound to a name, such as a session's id, and differs on every page."""

    def __init__(self, secret: str) -> None:
        self._key = _derive_key(secret, b"form token")

    def create_token(self, name: str) -> str:
        """Return a token for a form that only `name` may send."""
        salt = secrets.token_urlsafe(12)
        return f"{salt}.{self._sign(salt, name)}"

    def is_valid(self, token: str, name: str) -> bool:
        """Tell whether the token was made for this name."""
        salt, _dot, signature = token.partition(".")
        return bool(name) and hmac.compare_digest(signature.encode(), self._sign(salt, name).encode())

    def _sign(self, salt: str, name: str) -> str:
        return hmac.new(self._key, f"{salt}\n{name}".encode(), hashlib.sha256).hexdigest()


def _derive_key(secret: str, purpose: bytes) -> bytes:
    derived = HKDF(hashes.SHA256(), 32, salt=None, info=b"mnema console: " + purpose).derive(secret.encode())
    return base64.urlsafe_b64encode(derived)
