"""Limits of turn memory that the requests and the rules of the server share."""

from typing import Final

MAX_TEXT: Final = 100_000
"""Characters of a message of a turn."""
MAX_NAMED: Final = 100
"""Ids that a selection may name; the first of them count."""
MAX_OBJECTIVE: Final = 500
MAX_TITLE: Final = 200
MAX_TOPICS: Final = 16
MAX_TOPIC: Final = 100
MAX_QUERIES: Final = 16
MAX_QUERY: Final = 500
MAX_SIGNALS: Final = 32
"""The most signals of one kind in a fingerprint."""
MAX_KEY: Final = 120
MAX_APPLIES_TO: Final = 200
MAX_TAGS: Final = 16
MAX_TAG: Final = 200
MAX_PICKED: Final = 3
"""The most buckets that are picked at once."""
MAX_SELECTED: Final = 5
"""The most turns whose memories are selected at once."""
MAX_CONTINUED: Final = 10
"""The most earlier turns that a reconciled turn names."""
MAX_SPEC_ENTRIES: Final = 32
MAX_SPEC_VALUES: Final = 16
MAX_SPEC_VALUE: Final = 200
MAX_DESCRIPTION: Final = 500
MAX_SPEC: Final = 8000
"""The most characters of a specification: its keys, descriptions and values together, or its text."""
MIN_CONFIDENCE: Final = 0.70
"""A machine's reaction needs at least this confidence."""
MAX_FEEDBACK: Final = 2000
CANDIDATES: Final = 10
"""The newest turns among which the turn of a feedback is chosen."""
