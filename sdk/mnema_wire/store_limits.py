"""Limits of store items that the requests and the rules of the server share."""

from typing import Final

MAX_LABELS: Final = 20
MAX_LABEL: Final = 200
MAX_KEY: Final = 500
MAX_OPERATIONS: Final = 1000
MAX_ANSWERED: Final = 1000
MAX_OFFSET: Final = 1_000_000
MAX_PATHS: Final = 20
MAX_TTL_MINUTES: Final = 10 * 365 * 24 * 60
