"""The check of a key that somebody signs in with: a tenant's key, or the operator's."""

from collections.abc import Callable

from mnema_client import AsyncMnema, AsyncMnemaOperator, NotFound, Unauthenticated

from console.attempts import SignInAttempts
from console.keys import PersonKey, describe_key, describe_operator
from console.session import read_clock

TENANT_KEY = "mnema_"
"""The beginning of each tenant's key. Such a key is not tried as the operator's: the API counts wrong ones."""

OPERATOR_ATTEMPTS = 5
"""Keys of all strangers that are tried as the operator's in a minute: fewer than the API allows the console."""


class TooManyStrangers(Exception):
    """Too many unknown keys were tried as the operator's within a minute."""


class KeyCheck:
    """The clients that check a key, and are closed after it."""

    def __init__(
        self, connect: Callable[[str], AsyncMnema], connect_operator: Callable[[str], AsyncMnemaOperator]
    ) -> None:
        self._connect = connect
        self._connect_operator = connect_operator
        self._strangers = SignInAttempts(OPERATOR_ATTEMPTS, 1)

    async def check_key(self, key: str) -> PersonKey:
        """Return the key's description. Raise MnemaError, Unauthenticated if it is nobody's, or TooManyStrangers."""
        try:
            async with self._connect(key) as memory:
                return await describe_key(memory)
        except Unauthenticated as refusal:
            if key.startswith(TENANT_KEY):
                raise
            return await self._check_operator(key, refusal)

    async def _check_operator(self, key: str, refusal: Unauthenticated) -> PersonKey:
        if self._strangers.begin_attempt("", read_clock()):
            raise TooManyStrangers
        try:
            async with self._connect_operator(key) as operator:
                found = await describe_operator(operator)
        except NotFound:  # the API has no operator key
            raise refusal from None
        self._strangers.forgive_attempt("")
        return found
