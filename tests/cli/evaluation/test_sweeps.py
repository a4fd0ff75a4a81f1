"""The changed policies of mnema eval --sweep."""

from pathlib import Path

import pytest
import yaml

from app.config.loader import load_policies
from app.config.settings import Settings
from bench.evaluation.data import DataError
from bench.evaluation.sweeps import Change, change_policy, parse_sweep, write_config


def test_a_sweep_is_a_path_with_values() -> None:
    assert list(map(str, parse_sweep("query.top_k=3, 5"))) == ["query.top_k=3", "query.top_k=5"]
    for wrong in ("query.top_k", "=3", "query.top_k="):
        with pytest.raises(DataError, match="--sweep takes a path and values"):
            parse_sweep(wrong)


def test_profiles_that_inherit_a_value_have_the_changed_one(tmp_path: Path) -> None:
    model = Settings().embedding_model
    shipped = load_policies(model)
    changed = load_policies(model, write_config(tmp_path, ["notes"], Change("profiles.default.late", "0.45")))
    assert (changed.profiles["default"].late, changed.profiles["facts"].late) == (0.45, 0.45)
    assert changed.profiles["facts"].actor == shipped.profiles["facts"].actor == 0
    assert changed.query == shipped.query
    lists = yaml.safe_load((tmp_path / "memory_cat_config.yaml").read_text(encoding="utf-8"))["allowlists"]
    assert lists["supervisor"][-1] == "notes"


def test_an_inherited_value_is_changed_for_one_profile_alone() -> None:
    text = "profiles:\n  a: &a {late: 1, dense: 2}\n  b:\n    <<: *a\n    dense: 3\n"
    changed = yaml.safe_load(change_policy(text, Change("profiles.b.late", "0.5")))
    assert changed == {"profiles": {"a": {"late": 1, "dense": 2}, "b": {"late": 0.5, "dense": 3}}}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("query.nosuch", "'query' of policies.yaml has no 'nosuch'; it has: .*top_k"),
        ("nosuch.top_k", "policies.yaml has no 'nosuch'; it has: .*query"),
        ("query.top_k.deeper", r"'query\.top_k' of policies.yaml has no 'deeper'; it has: no names"),
    ],
)
def test_an_unknown_path_is_refused(tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        write_config(tmp_path, [], Change(path, "1"))
