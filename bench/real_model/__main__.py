"""The command `python -m bench.real_model`."""

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from bench.real_model.figures import markdown_report
from bench.real_model.measure import Plan, measure_ways
from bench.real_model.model_server import install_model
from bench.real_model.turns import load_turns


def main() -> int:
    """Run the benchmark. Return 0 if every limit is kept, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench.real_model")
    usual = Plan()
    parser.add_argument("--turns", type=int, default=50, help="turns to read")
    parser.add_argument("--minutes", type=float, default=usual.minutes, help="minutes for each way with a model")
    parser.add_argument("--daily-tokens", type=int, default=usual.daily_tokens, help="tokens of a tenant and day")
    parser.add_argument(
        "--tasks", type=int, default=usual.tasks, help="sets of texts that all pipelines are driven with"
    )
    parser.add_argument("--timeout", type=float, default=usual.timeout_s, help="seconds for a call of the model")
    parser.add_argument("--grammar", choices=("on", "off"), help="only this way with a model")
    parser.add_argument("--answers", type=Path, help="add all answers of the model to this file")
    parser.add_argument("--json", type=Path, help="write all figures and texts to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that everything is removed
    grammars = usual.grammars if chosen.grammar is None else (chosen.grammar == "on",)
    plan = Plan(chosen.minutes, chosen.daily_tokens, chosen.tasks, chosen.timeout, grammars, chosen.answers)
    report = measure_ways(load_turns()[: chosen.turns], install_model(print), plan, print)
    told = markdown_report(report)
    print(told)
    if chosen.markdown is not None:
        chosen.markdown.write_text(told, encoding="utf-8")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(asdict(report), indent=1, ensure_ascii=False), encoding="utf-8")
    return int(not all(limit.kept for limit in report.limits()))


if __name__ == "__main__":
    raise SystemExit(main())
