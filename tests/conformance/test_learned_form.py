"""The lessons from the answers of an endpoint: the form of requests, and the rests after timeouts."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.providers.chat_models import openai
from app.providers.chat_models.openai import LONGEST_REST_S, RELEARN_S, CallRests, LearnedForm
from app.providers.chat_models.request_form import STOPS, RequestForm

FIRST = RequestForm()
TOLD = FIRST.learn_from_nonsense()
THINKING = FIRST.learn_from_thoughts()


class Watch:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Return the clock of the module."""
    watch = Watch()
    monkeypatch.setattr(openai, "time", SimpleNamespace(monotonic=watch.monotonic))
    return watch


def test_a_form_that_makes_an_answer_readable_is_kept(watch: Watch) -> None:
    learned = LearnedForm("m", FIRST)
    learned.note_unreadable(FIRST, TOLD)
    assert learned.form == TOLD
    learned.note_readable(TOLD)
    learned.note_unreadable(TOLD, TOLD)
    assert learned.form == TOLD
    watch.now += RELEARN_S
    assert learned.form == FIRST


def test_a_form_that_does_not_help_is_given_up_until_all_is_forgotten(watch: Watch) -> None:
    learned = LearnedForm("m", FIRST)
    learned.note_unreadable(FIRST, TOLD)
    learned.note_unreadable(TOLD, TOLD)
    assert learned.form == FIRST
    learned.note_unreadable(FIRST, TOLD)
    assert learned.form == FIRST, "it was tried in vain"
    watch.now += RELEARN_S
    assert learned.form == FIRST
    learned.note_unreadable(FIRST, TOLD)
    assert learned.form == TOLD


def test_more_tokens_for_thoughts_are_tried_in_steps(watch: Watch) -> None:
    learned = LearnedForm("m", FIRST)
    learned.note_unreadable(FIRST, THINKING)
    most = THINKING.learn_from_thoughts()
    learned.note_unreadable(THINKING, most)
    assert learned.form == most
    learned.note_unreadable(most, most)
    assert learned.form == FIRST
    learned.note_unreadable(FIRST, THINKING)
    assert learned.form == FIRST


def test_a_refusal_during_a_trial_holds_after_it(watch: Watch) -> None:
    learned = LearnedForm("m", FIRST)
    learned.note_unreadable(FIRST, TOLD)
    learned.keep(replace(TOLD, has_temperature=False))
    learned.note_readable(FIRST)
    learned.note_unreadable(learned.form, learned.form)
    assert learned.form == replace(FIRST, has_temperature=False)


def test_an_answer_to_an_older_form_changes_nothing(watch: Watch) -> None:
    learned = LearnedForm("m", FIRST)
    learned.keep(replace(FIRST, has_stop=False))
    learned.note_unreadable(FIRST, TOLD)
    assert learned.form == replace(FIRST, has_stop=False)


def test_a_timeout_rests_only_its_own_kind_of_call(watch: Watch) -> None:
    calls = CallRests(60.0)
    calls.note_timeout("ctx_reconciler")
    assert calls.is_resting("ctx_reconciler")
    assert not calls.is_resting("multi_fact")
    calls.note_answer("multi_fact")
    assert calls.is_resting("ctx_reconciler"), "another kind's answer says nothing of it"
    watch.now += 60
    assert not calls.is_resting("ctx_reconciler")
    calls.note_timeout("ctx_reconciler")
    watch.now += 119
    assert calls.is_resting("ctx_reconciler"), "the second rest is twice as long"
    calls.note_answer("ctx_reconciler")
    assert not calls.is_resting("ctx_reconciler")


def test_an_endpoint_that_hangs_rests_for_all_calls(watch: Watch) -> None:
    calls = CallRests(60.0)
    calls.note_timeout("ctx_reconciler")
    calls.note_answer("summary")
    calls.note_timeout("multi_fact")
    assert not calls.is_resting("summary"), "an answer came between"
    calls.note_timeout("episode")
    assert calls.is_resting("summary")
    for _ in range(10):
        watch.now += LONGEST_REST_S
        assert not calls.is_resting("summary")
        calls.note_timeout("summary")
        assert calls.is_resting("probe")
    calls.note_answer("summary")
    assert not calls.is_resting("probe")


def test_stop_sequences_are_sent_until_they_are_refused() -> None:
    body = FIRST.build_body({}, 10)
    assert body["stop"] == list(STOPS)
    assert len(STOPS) <= 4, "OpenAI takes no more"
    form = FIRST.learn_from_refusal(400, "Unsupported parameter: 'stop' is not supported with this model.")
    assert form == replace(FIRST, has_stop=False)
    assert "stop" not in form.build_body({}, 10)
    assert FIRST.learn_from_refusal(400, "The service stopped.") is None
