"""The reasons of a trace: each code has a sentence here and a line in the documentation."""

import re
from pathlib import Path
from typing import get_args

from app.domain.memory.merge_bands import MergeBands
from app.domain.reflection.turn_trace import REASONS, JobStatus, find_band, job_reasons, read_reports, reading_reasons
from app.usecases.reflection import capture, fact_extraction

DOCUMENTED = Path(__file__).parents[3] / "docs" / "operations.md"


def test_the_documentation_has_each_code_with_its_sentence() -> None:
    _, _, section = DOCUMENTED.read_text().partition("## Why was nothing remembered?")
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE)) == dict(REASONS)


def test_every_reason_of_a_reader_has_a_code_or_leaves_the_turn_to_another() -> None:
    left = {"done", "no_model"}
    for reader, reasons in (("capture", capture.SkipReason), ("multi_fact", fact_extraction.SkipReason)):
        for why in get_args(reasons):
            codes = reading_reasons(read_reports([{reader: {"why": why}}]), capture_detail=None)
            assert len(codes) == (why not in left), (reader, why)


def test_the_last_report_on_a_reader_counts() -> None:
    first, second = {"capture": {"why": "nothing"}}, {"capture": {"facts": 2}, "multi_fact": {"why": "cap"}}
    readings = read_reports([first, second])
    assert [(one.reader, one.why, one.facts) for one in readings] == [("capture", None, 2), ("multi_fact", "cap", 0)]


def test_a_model_that_deletes_a_memory_or_knows_everything_says_so() -> None:
    counts = {"facts": 0, "candidates": 2, "tokens": 9, "known": 1, "forgotten": 0}
    for more, codes in (
        ({}, ["known"]),
        ({"known": 0}, ["not_stored"]),
        ({"forgotten": 1}, []),
        ({"candidates": 0, "known": 0}, ["model_nothing"]),
        ({"candidates": 0, "known": 0, "refused": {"no_quote": 1}}, ["model_refused"]),
        ({"candidates": 0, "known": 0, "proposed": 1}, ["proposed"]),
    ):
        assert reading_reasons(read_reports([{"multi_fact": counts | more}]), capture_detail=None) == codes


def test_jobs_that_end_have_no_reason_and_each_reason_comes_once() -> None:
    waiting = JobStatus("queued", False, None)
    assert job_reasons([JobStatus("done", True, None), waiting, waiting]) == ["job_queued"]
    assert job_reasons([JobStatus("queued", True, "error"), JobStatus("dead", True, "error")]) == [
        "job_paused",
        "job_dead",
    ]


def test_bands_begin_at_their_thresholds() -> None:
    bands = MergeBands(auto_update=0.8, check_low=0.6)
    found = [find_band(similarity, bands) for similarity in (None, 0.59, 0.6, 0.79, 0.8)]
    assert found == [None, "different", "unsure", "unsure", "same"]
