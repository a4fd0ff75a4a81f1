"""Parts of the page Rules: the document as YAML, the lines of a difference, and the fields that move memories."""

from collections.abc import Mapping, Sequence

import httpx
from mnema_client import MnemaError
from mnema_client.transport import Call
from nicegui import ui

from console.errors import explain_error
from console.texts import reveal_text

PATH = "/tenant/config"
YAML = {"Accept": "application/yaml"}
IN_USE = "category_in_use"
MOST_LINES = 1000
LONGEST_LINE = 500
TAGS = {"+": "ins", "-": "del"}


def read_yaml(version: int | None = None) -> Call[str]:
    """Return a version of the tenant's document as YAML; without `version`, the one in force."""
    path = PATH if version is None else f"{PATH}/{version}"
    return Call("GET", path, _read_text, headers=YAML)


def _read_text(response: httpx.Response) -> str:
    return response.text


def show_diff(lines: Sequence[str]) -> None:
    """Show the lines of a unified diff. A removed line begins with `-`, an added one with `+`."""
    if not lines:
        ui.label("No difference.").classes("soft")
        return
    with ui.element("pre").classes("code block difference lines"):
        for line in lines[:MOST_LINES]:
            with ui.element(TAGS.get(line[:1], "span")):
                ui.label(reveal_text(line.rstrip("\n"), LONGEST_LINE)).classes("line")
    if len(lines) > MOST_LINES:
        ui.label(f"{len(lines) - MOST_LINES:,} more lines").classes("soft")


def show_refusal(error: MnemaError) -> None:
    """Show why a document is refused: each place with its problem."""
    title, reason = explain_error(error)
    with ui.element("div").classes("state failed").props("role=alert"):
        ui.label("The rules are not valid" if error.code == "invalid_config" else title).classes("state-title")
        ui.label(reason).classes("text")


class MoveFields:
    """Fields that name, for categories that the new rules lack, the categories that their memories move to."""

    def __init__(self) -> None:
        with ui.element("div").classes("stack"):
            ui.label("Moves: one a line, such as old: new").classes("soft")
            self._field = ui.textarea("Memories of removed categories move").classes("wide")
            self._field.props("dense outlined autogrow autocomplete=off").mark("moves")

    def read_moves(self) -> Mapping[str, str]:
        """Return the moves by category. Raise ValueError for a line without two names."""
        moves: dict[str, str] = {}
        for line in (self._field.value or "").splitlines():
            if not line.strip():
                continue
            old, colon, new = (part.strip() for part in line.partition(":"))
            if not (colon and old and new):
                raise ValueError
            moves[old] = new
        return moves
