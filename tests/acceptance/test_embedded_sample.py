"""The tour depends on the data: another sample makes another tour, and erased data stays away."""

import json
import signal
from pathlib import Path

import pytest

from tests.acceptance.processes import Installation, Up, installation, mnema

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("embedded")]

OTHER = [
    ("projects", "Ravi builds a bakery in Porto whose ovens need a deployment plan before winter."),
    ("tasks", "Ravi has to order forty sacks of rye flour before the deployment plan is signed."),
    ("preferences", "Ravi prefers short answers with numbers first."),
]


def write_sample(place: Installation) -> Path:
    folder = place.home / "sample"
    folder.mkdir()
    rows = [
        {"user_id": "ravi", "category": category, "text": text, "thread_id": "launch", "days_ago": 3 - number}
        for number, (category, text) in enumerate(OTHER)
    ]
    turn = {
        "user_id": "ravi",
        "thread_id": "launch",
        "role": "user",
        "content": "Rye or wheat?",
        "seq": 1,
        "days_ago": 1,
    }
    (folder / "memories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "turns.jsonl").write_text(json.dumps(turn) + "\n")
    return folder


@pytest.mark.long
async def test_an_edited_sample_changes_the_tour_and_erasing_its_person_does_not_stop_the_next_start() -> None:
    with installation() as place:
        await tell_another_story(place, write_sample(place))


async def tell_another_story(place: Installation, sample: Path) -> None:
    with Up(place, MNEMA_TOUR="1", MNEMA_SAMPLE=sample) as up:
        output = up.serves()
        assert "sample: 4 memories written" in output
        assert "- [projects] Ravi builds a bakery in Porto" in output
        assert "- [tasks] Ravi has to order forty sacks of rye flour" in output
        assert "- ↑updated: [Tasks] Ravi asked for two rollback rehearsals" in output
        assert "category_not_allowed" in output
        assert "Kiep" not in output
        assert "aya" not in output.replace(str(place.home), "")
        erased = await mnema("erase", "--user", "ravi", "--yes", MNEMA_HOME=place.home)
        assert erased.returncode == 0
        up.ended(signal.SIGINT)
    with Up(place, MNEMA_TOUR="1", MNEMA_SAMPLE=sample) as up:
        output = up.serves()
        assert "rye flour" not in output
        assert "error the task was not stored: erased\nthe tour ended early" in output
        assert up.ended(signal.SIGINT) == 0
