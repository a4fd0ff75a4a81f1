"""The questions of prompts: raw texts quoted as JSON, so that none of them can end its own quotation."""

import json
from collections.abc import Mapping
from typing import Any

from mnema_wire.marks import defuse_marks

from app.domain.rendering.model_text import ModelText
from app.domain.text_rules import one_line


def json_question(question: Mapping[str, Any]) -> ModelText:
    """Return the question as JSON on one line. A text in it may be rendered already."""
    return ModelText(json.dumps(question, ensure_ascii=False, default=_unwrap))


def add_complaint(question: ModelText, complaint: str) -> ModelText:
    """Return the question with what was wrong with the last answer."""
    told = defuse_marks(one_line(complaint), leading=False)
    return ModelText(f"{question.text}\n\nYour last answer was refused. {told}")


def _unwrap(value: object) -> str:
    if isinstance(value, ModelText):
        return value.text
    raise TypeError(f"{type(value).__name__} is no JSON")
