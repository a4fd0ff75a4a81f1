"""The effort of a run: little by default, much in the deep profile, MNEMA_TEST_PROFILE=deep."""

import os

import pytest

DEEP = os.environ.get("MNEMA_TEST_PROFILE") == "deep"
deep_only = pytest.mark.skipif(not DEEP, reason="MNEMA_TEST_PROFILE=deep runs it")
"""Marks a test that takes long, and whose like runs by default."""


def tries(deep: int) -> int:
    """`deep` in the deep profile, else a quarter of it, but at least 3."""
    return deep if DEEP else max(3, deep // 4)
