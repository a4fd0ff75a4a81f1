"""Connections by a database URL, whose parameters are those of libpq.

The driver takes an unknown parameter for a setting of the server, and knows neither `connect_timeout` nor
`channel_binding` nor `sslrootcert=system`. So the parameters are read here first, and none is lost.
"""

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import asyncpg

from app.domain.errors import ConfigError

NO_URL: Final = "the database URL must be a URL of PostgreSQL: postgresql://role:…@host/mnema"
_NO_PARAMETER: Final = (
    "the database URL has something after its ? that is no parameter: write ? as %3F, and after it @ as %40"
)
_NO_DATABASE: Final = "the database URL has an @ in its path: write / in a password as %2F, and @ in a name as %40"

_DRIVER: Final = frozenset(
    {"host", "port", "dbname", "user", "password", "passfile", "sslmode", "sslrootcert", "sslcert", "sslkey"}
    | {"sslpassword", "sslcrl", "sslnegotiation", "ssl_min_protocol_version", "ssl_max_protocol_version"}
    | {"target_session_attrs", "krbsrvname"}
)
"""The parameters that the driver reads itself."""

_SESSION: Final = frozenset({"application_name", "options"})
"""The parameters that the server reads."""

_VERIFYING: Final = ("verify-ca", "verify-full")
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "sslmode": ("disable", "allow", "prefer", "require", *_VERIFYING),
    "channel_binding": ("disable", "prefer", "require"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "sslnegotiation": ("postgres", "direct"),
    "gssencmode": ("disable", "prefer"),  # the driver encrypts by TLS alone
    "client_encoding": ("utf8", "UTF8", "auto"),
}
"""The values of a parameter, where they are few."""

_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
_SYSTEM: Final = "system"
"""The value of `sslrootcert` that stands for the authorities which the operating system trusts."""

KNOWN: Final = sorted(_DRIVER | _SESSION | _VALUES.keys() | {"connect_timeout"})
_NAME: Final = re.compile(r"[a-z_]{1,40}")
_SCHEMES: Final = ("postgresql", "postgres")


def connection_arguments(url: str, **settings: str) -> dict[str, Any]:
    """Return the driver's arguments for a connection to `url`, with these settings of the session.

    An `application_name` of the URL takes precedence. Raise ConfigError, without the URL in it, for a URL or a
    parameter that cannot be followed.
    """
    parts = split_url(url)
    given = _read_parameters(parts.query)
    _check_values(given)
    _check_binding(given)
    arguments: dict[str, Any] = {}
    session = settings | {name: given[name] for name in _SESSION & given.keys()}
    if session:
        arguments["server_settings"] = session
    if "connect_timeout" in given:
        arguments["timeout"] = _read_timeout(given["connect_timeout"])
    if given.get("sslrootcert") == _SYSTEM:
        arguments["ssl"] = _trust_system(given)
    else:
        _check_readable(given)
        _check_authority(given)
    kept = {name: value for name, value in given.items() if name in _DRIVER}
    if "dbname" in kept:  # the driver would read it after the path; libpq reads it before
        arguments["database"] = kept.pop("dbname")
    if "ssl" in arguments:
        del kept["sslrootcert"]
    query = urlencode(kept, quote_via=quote)
    return {"dsn": urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))} | arguments


async def connect(url: str, database: str | None = None) -> asyncpg.Connection:
    """Open a connection to `url`, to `database` if it is given. Raise ConfigError for a URL that cannot be followed."""
    arguments = connection_arguments(url) | ({} if database is None else {"database": database})
    try:
        return await asyncpg.connect(**arguments)
    except ssl.SSLCertVerificationError:  # it is a ValueError too
        raise
    except (ValueError, OverflowError):  # the driver's message may hold the password
        raise ConfigError(NO_URL) from None


def database_name(url: str) -> str:
    """Return the name of the database that `connect` opens, empty if the URL has none. Raise ConfigError."""
    parts = split_url(url)
    return _read_parameters(parts.query).get("dbname") or unquote(parts.path.removeprefix("/"))


def split_url(url: str) -> SplitResult:
    """Return the parts of the URL. Raise ConfigError, without a part in it, if it cannot be split as it was meant.

    A password that is not escaped may reach into the path or the parameters. The @ after it shows that.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # its message may hold the password
        raise ConfigError(NO_URL) from None
    if parts.scheme not in _SCHEMES:
        raise ConfigError(NO_URL)
    if parts.fragment:
        raise ConfigError("the database URL has a #: write it as %23")
    if "@" in parts.query:
        raise ConfigError(_NO_PARAMETER)
    if "@" in parts.path:
        raise ConfigError(_NO_DATABASE)
    return parts


def _read_parameters(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query.replace("+", "%2B"), keep_blank_values=True):
        if not _NAME.fullmatch(name):  # perhaps a part of a password
            raise ConfigError(_NO_PARAMETER)
        if name not in KNOWN:
            raise ConfigError(f"unknown parameter {name!r} in the database URL; it may have: {', '.join(KNOWN)}")
        if name in found:
            raise ConfigError(f"the database URL has the parameter {name!r} twice")
        found[name] = value
    return {name: value for name, value in found.items() if value}


def _check_values(given: Mapping[str, str]) -> None:
    for name, values in _VALUES.items():
        if name in given and given[name] not in values:
            raise ConfigError(f"{name} of the database URL must be one of: {', '.join(values)}")


def _check_binding(given: Mapping[str, str]) -> None:
    """Accept `channel_binding=require` only where the certificate proves the server just as well.

    The driver has no channel binding, which keeps somebody between client and server from relaying the login.
    """
    proven = given.get("sslmode") == "verify-full" or given.get("sslrootcert") == _SYSTEM
    if given.get("channel_binding") == "require" and not proven:
        raise ConfigError(
            "channel_binding=require of the database URL needs sslmode=verify-full here, because the driver has no "
            "channel binding: add sslmode=verify-full&sslrootcert=system, or the file of your provider's authority"
        )


def _read_timeout(value: str) -> float | None:
    """Return the seconds that a connection may take; None for no limit."""
    if not re.fullmatch(r"[0-9]{1,5}", value):
        raise ConfigError("connect_timeout of the database URL must be a number of seconds, 0 for no limit")
    return float(value) or None


def _trust_system(given: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context that checks certificate and host name by the authorities of the operating system."""
    if given.get("sslmode", "verify-full") != "verify-full":
        raise ConfigError("sslrootcert=system of the database URL needs sslmode=verify-full")
    _check_readable({name: value for name, value in given.items() if name != "sslrootcert"})
    context = ssl.create_default_context()
    if "sslcert" in given:
        try:
            context.load_cert_chain(given["sslcert"], given.get("sslkey"), given.get("sslpassword", ""))
        except (OSError, ValueError) as error:
            raise ConfigError(f"sslcert or sslkey of the database URL cannot be used: {error}") from error
    return context


def _check_readable(given: Mapping[str, str]) -> None:
    """Check that the named files exist: the driver would call a missing one a database that does not answer."""
    for name in _FILES:
        if name in given and not os.access(given[name], os.R_OK):
            raise ConfigError(f"{name} of the database URL names a file that cannot be read: {given[name]}")


def _check_authority(given: Mapping[str, str]) -> None:
    default = Path("~/.postgresql/root.crt").expanduser()
    trusted = "sslrootcert" in given or os.environ.get("PGSSLROOTCERT") or default.is_file()
    if given.get("sslmode") in _VERIFYING and not trusted:
        raise ConfigError(
            f"sslmode={given['sslmode']} of the database URL needs sslrootcert: the file of your provider's authority, "
            "or system for those of the operating system"
        )
