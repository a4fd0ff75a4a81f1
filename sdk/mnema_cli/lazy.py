"""An application of commands that are imported only when they are called, so that help and completion are quick."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that is not imported yet.

    `source`: `module:name` of a function or of a `typer.Typer`. `summary`: the first sentence of its help.
    """

    name: str
    source: str
    summary: str

    def load(self) -> Any:
        """Import and return the function or the `typer.Typer`."""
        module, _colon, name = self.source.partition(":")
        return getattr(import_module(module), name)

    def build(self) -> Any:
        """Import and return what Typer runs."""
        loaded = self.load()
        if isinstance(loaded, typer.Typer):
            return get_group(loaded)
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(loaded)
        return get_command(alone)


def build_application(commands: Iterable[LazyCommand], **settings: Any) -> typer.Typer:
    """Return an application with these commands. `settings` are those of `typer.Typer`."""
    lazy = {command.name: command for command in commands}

    class LazyGroup(TyperGroup):
        """The group that imports a command when it is called."""

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Return the name, the imported command and the other arguments."""
            name, listed, rest = super().resolve_command(ctx, args)
            return name, lazy[name].build() if name in lazy else listed, rest

    application = typer.Typer(cls=LazyGroup, **settings)
    for command in lazy.values():
        application.command(command.name, help=command.summary)(_stand_in)
    return application


def _stand_in() -> None:
    """Stand for a command in the list of commands."""
