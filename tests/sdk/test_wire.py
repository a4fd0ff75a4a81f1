"""The bodies that the server and its clients share: an older client reads what a newer server answers."""

import importlib
import pkgutil
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import mnema_wire
import pytest
from mnema_wire import jobs, recall
from mnema_wire.bases import Answered, Request
from pydantic import BaseModel

from app.domain.jobs.job import JobKind


def shared_models(base: type[BaseModel]) -> list[type[BaseModel]]:
    modules = [
        importlib.import_module(f"mnema_wire.{module.name}") for module in pkgutil.iter_modules(mnema_wire.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    ]


def parts_of(annotation: Any) -> list[Any]:
    """Return a type and all types inside it."""
    return [annotation, *(part for argument in get_args(annotation) for part in parts_of(argument))]


@pytest.mark.parametrize("model", shared_models(Answered), ids=lambda model: model.__name__)
def test_an_answer_may_have_fields_and_words_that_the_client_does_not_know(model: type[BaseModel]) -> None:
    assert model.model_config["extra"] in {"ignore", "allow"}
    closed = [
        name
        for name, field in model.model_fields.items()
        for part in parts_of(field.annotation)
        if get_origin(part) is Literal or (isinstance(part, type) and issubclass(part, Enum))
    ]
    assert closed == []


@pytest.mark.parametrize("model", shared_models(Request), ids=lambda model: model.__name__)
def test_a_request_has_no_field_that_the_server_does_not_know(model: type[BaseModel]) -> None:
    assert model.model_config["extra"] == "forbid"


def test_a_new_word_is_kept_and_a_new_field_ignored() -> None:
    dropped = {
        "id": "0197b7a0-0000-7000-8000-000000000000",
        "category": "tasks",
        "reason": "foreseen",
        "novel": {"x": 1},
    }
    assert recall.Dropped.model_validate(dropped).reason == "foreseen"
    known = recall.Dropped.model_json_schema()["properties"]["reason"]["enum"]
    assert "foreseen" not in known
    assert set(known) == set(recall.DROP_REASONS)


def test_the_names_of_the_models_are_unique() -> None:
    names = [model.__name__ for model in shared_models(BaseModel)]
    assert sorted(names) == sorted(set(names))


def test_a_request_names_the_kinds_of_jobs_that_the_server_has() -> None:
    assert set(get_args(jobs.JobKind)) == {kind.value for kind in JobKind}
