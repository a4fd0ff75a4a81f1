"""The number of tries where more is always possible: few by default, many in the deep profile.

MNEMA_TEST_PROFILE=deep asks for it, and so does CI, unless MNEMA_TEST_PROFILE=default says otherwise.
"""

import os

DEEP = os.environ.get("MNEMA_TEST_PROFILE", "deep" if os.environ.get("CI") else "default") == "deep"


def tries(deep: int) -> int:
    """`deep` in the deep profile, else a quarter of it, but at least 3."""
    return deep if DEEP else max(3, deep // 4)
