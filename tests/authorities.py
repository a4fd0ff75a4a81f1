"""The trusted certificate authorities, read once for each test process.

An HTTP client that is built without a context reads all of them, which takes 20 ms of CPU: more than a request to a
server on loopback. The tests build thousands of clients, and nearly all speak plain HTTP.
"""

import functools
import ssl

import pytest

PATCH = pytest.MonkeyPatch()


def pytest_configure(config: pytest.Config) -> None:
    """Return one context to all callers with the same arguments. httpx looks the function up at each call."""
    PATCH.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the function."""
    PATCH.undo()
