"""Conversations: the user whose memory a chat has, and messages that may change what another one says.

"Actually it's on the 18th" is about the message before it, and no search for the recital finds it. No rule needs to
understand it: the model gets both.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from app.domain.errors import InvalidInput, RepeatedHeader
from app.domain.ids import check_identifier
from app.domain.principal import Principal

_ENCODED_NAME: Final = "X-OpenWebUI-User-Name"
USER_HEADERS: Final = ("X-OpenWebUI-User-Id", "X-OpenWebUI-User-Email", _ENCODED_NAME)
"""The headers in which Open WebUI names its user."""
_USER_HEADERS: Final = {name.lower(): name for name in USER_HEADERS}
USER_SOURCES: Final = ("user", "name", "safety_identifier", "metadata.user_id", *USER_HEADERS)
"""The places of a request that may name the remembered user: fields, the `name` of a user's last message, headers."""
REACH: Final = 4
"""The places of a thread in which the next message of a speaker is looked for: answers and tools may stand between."""
LONGEST: Final = 200
"""A longer message states what it is about, so the search finds it."""
_WORD: Final = re.compile(r"\w{4,}")


def may_change(said: str, later: str, *, retracts: bool) -> bool:
    """Tell whether the speaker's next message may change what the one before says.

    It is no question, and it `retracts`, as it has a word of a negation or a change, or it has a word of the other one.
    """
    if len(later) > LONGEST or later.rstrip().endswith(("?", "？", "؟")):
        return False
    if retracts:
        return True
    folded = said.casefold()
    return any(word in folded for word in _WORD.findall(later.casefold()))


def default_user(principal: Principal) -> str:
    """Return the user of a chat that names none: one of the API key's own."""
    return f"key-{principal.key_id}"


def read_user_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Return the users that headers name; a list for a header that appears more than once.

    Open WebUI sends a name with percent signs.
    """
    named: dict[str, list[str]] = {}
    for header, value in headers:
        if (name := _USER_HEADERS.get(header.lower())) is not None:
            named.setdefault(name, []).append(unquote(value) if name == _ENCODED_NAME else value)
    return {name: values if len(values) > 1 else values[0] for name, values in named.items()}


def first_identifier(values: Mapping[str, Any], sources: Sequence[str]) -> str | None:
    """Return the first of the values named `sources` that is an identifier, None without one. Empty is none.

    Raise InvalidInput, which names the source, for another value, and RepeatedHeader for several values of a header.
    """
    for source in sources:
        value = values.get(source)
        if value is None or value == "":
            continue
        if isinstance(value, list) and source in USER_HEADERS:
            raise RepeatedHeader(f"the header {source} names the user and appears more than once", param=source)
        if not isinstance(value, str):
            raise InvalidInput(f"{source} must be a string", param=source)
        try:
            return check_identifier(value)
        except InvalidInput as error:
            raise InvalidInput(f"{source}: {error.detail}", param=source) from error
    return None
