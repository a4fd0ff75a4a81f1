"""The one place that builds engines, providers and use-cases. Every face gets them from here.

Each capability has a builder in a module of its name. `build_application` calls them all for servers and workers; the
functions named `open_…` build as little as one command of an operator needs. So the whole application is imported when
somebody asks for one of its names here: a command would wait a second for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.bootstrap.application import Application, Doubles, build_application

__all__ = ["Application", "Doubles", "build_application"]


def __getattr__(name: str) -> Any:
    """Return a name of the application."""
    if name in __all__:
        return getattr(import_module("app.bootstrap.application"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
