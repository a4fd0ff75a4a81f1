"""The form of the requests to an endpoint as it was learned, and for how long it is kept."""

import math
import time
from dataclasses import replace
from typing import Final

import structlog

from app.providers.chat_models.request_form import RequestForm

log = structlog.get_logger(__name__)
RELEARN_S: Final = 6 * 3600.0
"""Seconds after which what was learned of an endpoint is forgotten, because another server may stand behind it."""


class LearnedForm:
    """The form in which an endpoint is asked, from `first` on.

    A form that follows from a refusal is kept: the endpoint takes no other. One that follows from an unreadable answer
    is tried. It is kept if the next answer is readable; if not, the former one comes back, since the form was not the
    reason, and the tried one is not tried again.
    """

    def __init__(self, model: str, first: RequestForm) -> None:
        self._model = model
        self._first = first
        self._form = first
        self._former: RequestForm | None = None
        self._useless: set[tuple[bool, int]] = set()
        self._forgets_at = math.inf

    @property
    def form(self) -> RequestForm:
        """The form of the next request."""
        if time.monotonic() >= self._forgets_at:
            self._form = self._first
            self._former = None
            self._useless.clear()
            self._forgets_at = math.inf
        return self._form

    def keep(self, form: RequestForm) -> None:
        """Keep the form that follows from a refusal. A form on trial stays on trial."""
        if self._former is not None:
            tells, thinks = self._former.tells_schema, self._former.thinking_tokens
            self._former = replace(form, tells_schema=tells, thinking_tokens=thinks)
        self._change(form)

    def note_readable(self, used: RequestForm) -> None:
        """Keep the form on trial if the readable answer is its own."""
        if used == self._form:
            self._former = None

    def note_unreadable(self, used: RequestForm, other: RequestForm) -> None:
        """Try `other` after an unreadable answer, unless it was tried in vain; then return to the former form."""
        if used != self._form:
            return  # another call has learned something meanwhile
        if other != used and _trait(other) not in self._useless:
            self._former = self._former or used
            if self._former != used:
                self._useless.add(_trait(used))
            self._change(other)
        elif self._former is not None:
            self._useless.add(_trait(used))
            former, self._former = self._former, None
            self._change(former)

    def _change(self, form: RequestForm) -> None:
        if form != self._form:
            self._form = form
            self._forgets_at = time.monotonic() + RELEARN_S
            log.info("chat_model_request_form", model=self._model, form=form.describe())


def _trait(form: RequestForm) -> tuple[bool, int]:
    """Return what unreadable answers change of a form."""
    return form.tells_schema, form.thinking_tokens
