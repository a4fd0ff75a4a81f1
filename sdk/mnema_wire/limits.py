"""Limits and defaults that the requests and the rules of the server share."""

from typing import Final

MAX_IDENTIFIER: Final = 200
"""Characters of an identifier of the caller."""
MAX_JSON_BYTES: Final = 16_384
MAX_JSON_DEPTH: Final = 16
DEFAULT_MODEL: Final = "GPT-5"
"""The name of the model in a label if the request names none."""
MAX_CONSENT_QUESTION: Final = 500
"""Characters of a question that asks a user for consent."""
MAX_CHAT_MEMORIES: Final = 50
"""Memories that a chat request may ask for."""
MAX_PATTERNS: Final = 50
MAX_PATTERN: Final = 200
"""Characters of a pattern of paths."""
SHARED_USER: Final = "_shared"
"""The user of documents that queries for any user find."""
MAX_WHERE_DEPTH: Final = 8
"""Levels of a filter, and keys of a path into the metadata."""
MAX_WHERE_NODES: Final = 100
"""Comparisons, groups and negations of a filter."""
MAX_WHERE_VALUES: Final = 200
MAX_WHERE_SEARCHES: Final = 20
"""Searches of a filter for characters within a text: no index serves them."""
MAX_WHERE_TEXT: Final = 1000
"""Characters of a value, and of a path into the metadata."""
