"""The figures of mnema eval on cases that are counted by hand."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bench.evaluation.asking import Row, measure_ranking, share_found
from bench.evaluation.baselines import fuse_rankings
from bench.evaluation.data import DataError
from bench.evaluation.figures import Figure, measure_auroc, measure_mean, measure_percentile
from bench.evaluation.loading import DataFile
from bench.evaluation.report import ALL, Report, check_same_data, find_falls, summarise_run
from bench.evaluation.runs import SHIPPED
from bench.evaluation.tables import kind_rows, run_rows, size_rows, write_figure, write_markdown


def test_a_ranking_is_counted_by_its_places() -> None:
    ranked = [{"x"}, {"a", "y"}, {"z"}, {"b"}, {"c"}]
    values = measure_ranking(["a", "b", "c", "d"], ranked, 4)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)
    assert values["recall"] == 2 / 4
    assert values["all"] == 0
    assert values["ndcg"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert measure_ranking(["x"], ranked, 4) == {"recall": 1, "all": 1, "ndcg": 1}
    assert measure_ranking(["x"], [], 4) == {"recall": 0, "all": 0, "ndcg": 0}
    assert share_found(["a", "q"], ranked) == 0.5


def test_a_mean_has_an_interval() -> None:
    figure = measure_mean([0.0, 1.0] * 50)
    assert (figure.value, figure.questions) == (0.5, 100)
    assert figure.low == pytest.approx(0.4, abs=0.03)
    assert figure.high == pytest.approx(0.6, abs=0.03)
    assert measure_mean([0.0, 1.0] * 50) == figure  # the seed is fixed
    assert measure_mean([0.25]) == Figure(0.25, 0.25, 0.25, 1)
    assert measure_mean([]) == Figure()


def test_a_percentile() -> None:
    assert measure_percentile([1.0, 2.0, 3.0], 50).value == 2


def test_an_area_counts_pairs_and_halves_of_ties() -> None:
    assert measure_auroc([0.9, 0.5], [0.5, 0.1]).value == 3.5 / 4
    assert measure_auroc([0.9], [0.1]) == Figure(1.0, 1.0, 1.0, 2)
    assert measure_auroc([0.9], []) == Figure()


def test_rankings_are_fused_by_their_places() -> None:
    fused = fuse_rankings([{"a"}, {"b"}, {"c"}], [{"b"}, {"d"}])
    assert fused[0] == {"b"}  # 1/62 + 1/61
    assert [set(units) for units in fused[1:]] == [{"a"}, {"d"}, {"c"}]


def rows() -> list[Row]:
    """Return three questions: two answerable ones of one kind, and one that nothing answers."""
    costs = {"latency_ms": 2.0, "cpu_ms": 1.0, "tokens": 20.0}
    return [
        Row("c", 1, "single", 1, {**costs, "recall": 1.0, "items": 2.0, "answerable": 0.9}),
        Row("c", 2, "single", 2, {**costs, "recall": 0.5, "items": 4.0, "answerable": 0.2}),
        Row("c", 3, "none", 0, {**costs, "items": 1.0, "nothing": 0.0, "answerable": 0.3}),
    ]


def make_report(**changed: Any) -> Report:
    options = {"model": "m", "top_k": 10, "conversations": [], "roles": []} | changed
    files = [DataFile("own.jsonl", "5e1f", "jsonl")]
    runs = {SHIPPED: summarise_run(rows())}
    return Report("0.1.0", files, options, Counter(questions=3), Counter(), runs, {SHIPPED: rows()})


def test_figures_are_counted_over_all_and_by_kind() -> None:
    figures = summarise_run(rows())
    assert list(figures) == [ALL, "none", "single"]
    values = {name: figure.value for name, figure in figures[ALL].items()}
    assert values["recall"] == 0.75
    assert (values["items"], values["items_unanswerable"], values["tokens_unanswerable"]) == (3, 1, 20)
    assert (values["nothing"], values["auroc"]) == (0, 0.5)
    assert figures["none"]["auroc"].value == 0.5  # against all answerable questions
    assert "recall" not in figures["none"]
    assert figures["single"]["recall"].questions == 2


def test_a_report_is_written_as_tables() -> None:
    report = make_report()
    assert ["recall@10 before the cut", "0.750 (0.500–1.000)"] in list(run_rows(report))
    head, *kinds = kind_rows(report)
    assert head[:3] == ["kind", "questions", "recall@10 before the cut"]
    assert [row[:2] for row in kinds] == [["all", "3"], ["none", "1"], ["single", "2"]]
    assert "| recall@10 before the cut | 0.750 (0.500–1.000) |" in write_markdown(report)
    assert write_figure("tokens", Figure(31.25, 30.0, 32.0, 2)) == "31.2 (30.0–32.0)"
    assert write_figure("recall", None) == ""


def test_a_figure_that_fell_is_named() -> None:
    values = make_report().as_json()
    former = make_report().as_json()
    former["runs"][SHIPPED][ALL]["recall"]["value"] = 0.77
    former["runs"][SHIPPED][ALL]["tokens"]["value"] = 99.0  # fewer is no fault
    assert list(find_falls(values, former, 0.03)) == []
    assert list(find_falls(values, former, 0.01)) == ["shipped, all: recall fell from 0.7700 to 0.7500"]


def judged_rows() -> list[Row]:
    """Return the three questions with answers: a right one, an unreadable verdict, and an abstention."""
    right, unread, none = rows()
    right.values.update(unreadable=0.0, unreadable_verdict=0.0, abstained=0.0, right=1.0, right_held=1.0)
    unread.values.update(unreadable=0.0, unreadable_verdict=1.0)
    none.values.update(unreadable=0.0, unreadable_verdict=0.0, abstained=1.0)
    return [right, unread, none]


def test_answers_are_counted_over_the_judged_questions() -> None:
    figures = summarise_run(judged_rows())
    values = {name: (figure.value, figure.questions) for name, figure in figures[ALL].items()}
    assert (values["right"], values["right_held"]) == ((1, 1), (1, 1))
    assert (values["abstained"], values["abstained_answerable"]) == ((1, 1), (0, 1))
    assert (values["unreadable"], values["unreadable_verdict"]) == ((0, 3), (0.3333, 3))
    assert "abstained" not in figures["single"]


def test_worse_answers_and_missing_ones_are_falls() -> None:
    report = replace(make_report(), runs={SHIPPED: summarise_run(judged_rows())})
    values, former = report.as_json(), report.as_json()
    assert list(find_falls(values, former, 0.01)) == []
    former["runs"][SHIPPED][ALL]["unreadable_verdict"]["value"] = 0.1
    former["runs"][SHIPPED][ALL]["right"]["questions"] = 2
    assert list(find_falls(values, former, 0.01)) == [
        "shipped, all: right is of 1 questions, and was of 2",
        "shipped, all: unreadable_verdict rose from 0.1000 to 0.3333",
    ]


def test_sizes_models_and_notes_have_their_place() -> None:
    model = {"stage": "judge", "model": "m", "prompt": "p.v1", "calls": 3, "cached": 1}
    costs = {"input_tokens": 40, "output_tokens": 9}
    runs = {SHIPPED: summarise_run(rows()), "10 memories": summarise_run(rows())}
    report = replace(make_report(sizes=[10, 99]), runs=runs, models=[{**model, **costs}], notes=["no stores of 99"])
    assert next(run_rows(report)) == ["all questions", "shipped"]
    head, ten = size_rows(report)
    assert head[:3] == ["memories", "questions", "recall@10 before the cut"]
    assert ten[:3] == ["10", "3", "0.750 (0.500–1.000)"]
    page = write_markdown(report)
    assert "- judge: 3 calls of m, 1 from the cache, 40 + 9 tokens" in page
    assert "- no stores of 99" in page
    assert "| memories | questions |" in page
    values = report.as_json()
    assert (values["models"][0]["calls"], values["notes"]) == (3, ["no stores of 99"])


def test_reports_of_other_questions_are_not_compared() -> None:
    report = make_report()
    former = make_report(roles=["user"]).as_json()
    with pytest.raises(DataError, match=r"the former report has roles \['user'\], not \[\]"):
        check_same_data(report.options, report.data, former)
    with pytest.raises(DataError, match="of other data"):
        check_same_data(report.options, [DataFile("own.jsonl", "0", "jsonl")], report.as_json())
    check_same_data({**report.options, "model": "other"}, report.data, report.as_json())
    judged = make_report(judge="m (p.v1)")
    check_same_data(report.options, report.data, judged.as_json())
    with pytest.raises(DataError, match=r"the judge of the former report is m \(p\.v1\), not m \(p\.v2\)"):
        check_same_data({**judged.options, "judge": "m (p.v2)"}, judged.data, judged.as_json())
