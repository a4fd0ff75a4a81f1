"""The readers by product: what each needs of the caller's options, and its API key."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import typer

from mnema_cli.imports.csv_table import read_csv
from mnema_cli.imports.graphiti import URL as GRAPHITI_URL
from mnema_cli.imports.graphiti import read_graphiti
from mnema_cli.imports.honcho import URL as HONCHO_URL
from mnema_cli.imports.honcho import read_honcho
from mnema_cli.imports.langgraph_store import StoreChoices, open_store, read_store
from mnema_cli.imports.letta import read_letta
from mnema_cli.imports.markdown import read_markdown
from mnema_cli.imports.mem0 import read_mem0
from mnema_cli.imports.pages import Pages
from mnema_cli.imports.pam import read_pam
from mnema_cli.imports.records import Choices, Found, SourceFailed
from mnema_cli.imports.zep import URL as ZEP_URL
from mnema_cli.imports.zep import read_zep


class Product(StrEnum):
    """A product or a format that can be imported."""

    mnema = "mnema"
    pam = "pam"
    mem0 = "mem0"
    letta = "letta"
    zep = "zep"
    graphiti = "graphiti"
    honcho = "honcho"
    langgraph = "langgraph"
    markdown = "markdown"
    csv = "csv"


@dataclass(frozen=True, slots=True)
class Api:
    """An HTTP API: its usual address, the variable of its key, the header's scheme, and whether it needs a key."""

    url: str
    variable: str
    scheme: str
    needs_key: bool = False


APIS: Mapping[Product, Api] = {
    Product.zep: Api(ZEP_URL, "ZEP_API_KEY", "Api-Key", needs_key=True),
    Product.graphiti: Api(GRAPHITI_URL, "GRAPHITI_API_KEY", "Bearer"),
    Product.honcho: Api(HONCHO_URL, "HONCHO_API_KEY", "Bearer"),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """A source as the caller names it, with the options that only some products take."""

    product: Product
    source: str | None
    groups: tuple[str, ...] = ()
    last: int = 10_000
    workspace: str = "default"
    assistants: tuple[str, ...] = ()
    store: StoreChoices = field(default_factory=StoreChoices)
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The name of the source in a report."""
        if api := APIS.get(self.product):
            return self.source or api.url
        source = self.source or ""
        return source if self.product is Product.langgraph else Path(source).resolve().name

    @property
    def identity(self) -> str:
        """The text that tells this source from others on this machine."""
        if self.product in APIS or self.product is Product.langgraph:
            return f"{self.name} {self.workspace} {self.store.as_items}"
        return str(Path(self.source or "").resolve())


def open_reader(origin: Origin, choices: Choices, stack: ExitStack) -> Iterator[Found]:
    """Return the records of a source; the stack closes what they need. Raise SourceFailed."""
    return _OPENERS[origin.product](origin, choices, stack)


def _open_file(origin: Origin, *, folder: bool = False) -> Path:
    if not origin.source:
        raise SourceFailed(f"name the {'folder' if folder else 'file'}: mnema import PATH --from {origin.product}")
    path = Path(origin.source)
    if not path.is_file() and not (folder and path.is_dir()):
        raise SourceFailed(f"{origin.source} does not exist or is no {'folder or ' if folder else ''}file")
    if not os.access(path, os.R_OK):
        raise SourceFailed(f"{origin.source} cannot be read")
    return path


def _open_pages(origin: Origin, stack: ExitStack) -> Pages:
    api = APIS[origin.product]
    key = _read_key(origin.product, api)
    pages = Pages(origin.source or api.url, {"Authorization": f"{api.scheme} {key}"} if key else {})
    stack.callback(pages.close)
    return pages


def _read_key(product: Product, api: Api) -> str:
    """Return the key of the environment, else what a person enters, else "". It never is an argument of a command."""
    key = os.environ.get(api.variable, "").strip()
    if not key and api.needs_key and sys.stdin.isatty():
        key = typer.prompt(f"API key of {product}", hide_input=True).strip()
    if not key and api.needs_key:
        raise SourceFailed(f"set {api.variable} to the API key of {product}")
    if not key.isascii() or not key.isprintable():
        raise SourceFailed(f"{api.variable} has characters that no key has")
    return key


def _open_letta(origin: Origin, choices: Choices, stack: ExitStack) -> Iterator[Found]:
    if not choices.user:
        raise SourceFailed("name the user with --user; an agent file has none")
    return read_letta(_open_file(origin), choices)


def _open_graphiti(origin: Origin, choices: Choices, stack: ExitStack) -> Iterator[Found]:
    if not origin.groups:
        raise SourceFailed("name the groups to read with --group; Graphiti's server does not list them")
    return read_graphiti(_open_pages(origin, stack), choices, origin.groups, origin.last)


def _open_honcho(origin: Origin, choices: Choices, stack: ExitStack) -> Iterator[Found]:
    return read_honcho(_open_pages(origin, stack), choices, origin.workspace, origin.assistants)


def _open_langgraph(origin: Origin, choices: Choices, stack: ExitStack) -> Iterator[Found]:
    if not origin.source:
        raise SourceFailed("name the store: mnema import package.module:name --from langgraph, or postgres")
    return read_store(open_store(origin.source, stack), choices, origin.store)


_OPENERS: Mapping[Product, Callable[[Origin, Choices, ExitStack], Iterator[Found]]] = {
    Product.mem0: lambda origin, choices, _stack: read_mem0(_open_file(origin), choices),
    Product.pam: lambda origin, choices, _stack: read_pam(_open_file(origin), choices),
    Product.letta: _open_letta,
    Product.zep: lambda origin, choices, stack: read_zep(_open_pages(origin, stack), choices),
    Product.graphiti: _open_graphiti,
    Product.honcho: _open_honcho,
    Product.langgraph: _open_langgraph,
    Product.markdown: lambda origin, choices, _stack: read_markdown(_open_file(origin, folder=True), choices),
    Product.csv: lambda origin, choices, _stack: read_csv(_open_file(origin), choices, dict(origin.columns)),
}
