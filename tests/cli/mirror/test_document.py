"""The commands of docs/mirror.md, run as they are written: they print what the page says."""

from pathlib import Path

import pytest

from tests.cli.mirror.conftest import MirrorRoom
from tests.cli.pages import check_page


@pytest.mark.long
async def test_the_commands_of_the_page_print_what_it_says(room: MirrorRoom, tmp_path: Path) -> None:
    await check_page("docs/mirror.md", tmp_path, room.env, least=7)
    assert await room.texts() == ["Maya drinks her tea with lemon.", "Maya is allergic to nuts."]
