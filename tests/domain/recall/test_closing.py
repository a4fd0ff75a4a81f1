"""A later statement closes the span of an earlier one: rarely, and never wrongly on the labelled sets."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.recall.closing import closes_span, judge_english, read_ending, tells_all
from app.domain.recall.supersession import Statement
from bench import stale_pairs, time_rules

EARLY = datetime(2025, 1, 1, tzinfo=UTC)
LATE = EARLY + timedelta(days=1)
STATEMENTS = st.tuples(
    st.sampled_from(["", "As of May, ", "Since the move, ", "note: ", "Currently "]),
    st.sampled_from(
        ["", "The user ", "I ", "My favorite band ", "The user's new manager ", "Nora's dog ", "The launch "]
    ),
    st.sampled_from(
        ["is", "was", "lives in", "works at", "is in", "now uses", "uses", "pays", "no longer has", "will be"]
    ),
    st.sampled_from(
        [" Oslo", " Bergen", " Wet Leg", " a cat", " 3 May", " 40 euros", " open", " closed", " tea, not milk"]
    ),
    st.sampled_from(["", " now", " since the spring", " because of work", " anymore", " (was Oslo)", " too", "?"]),
).map("".join)
TEXTS = st.text("aeilnorst .,'INOTv0129", max_size=60)


def closes(older: str, newer: str) -> bool:
    return closes_span(Statement(older, EARLY), Statement(newer, LATE))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Lives in Oslo.", "Relocated to Bergen last month."),
        ("The user has a dog named Max.", "The user no longer has a dog."),
        ("The user smokes.", "I quit smoking."),
        ("My car is blue.", "My car is no longer blue."),
        ("The user works at Acme.", "The user started at Globex on Monday."),
        ("I'm reading Middlemarch.", "Finished Middlemarch last night."),
        ("The launch is planned for 3 March.", "The launch has slipped to 17 April."),
        ("Ich esse Fleisch.", "Ich esse kein Fleisch mehr."),
        ("Reparto pan por las mañanas.", "Ya no reparto pan, me dolía la espalda."),
        ("Her aunt is called Karin.", "No, her name was never Karin, it is Kari."),
        ("I use Lightroom.", "I switched from Lightroom to darktable."),
        ("The user drinks coffee.", "The user switched from coffee to tea."),
        ("The user lives in Oslo.", "The user moved from Oslo to Bergen."),
        ("The user is on the free tier.", "The user upgraded from the free tier to the pro tier."),
        ("I'm an engineer.", "I'm no longer an engineer but a manager."),
        ("The meeting is at 3 pm.", "The meeting is now at 4 pm, not 3 pm."),
        ("The user's car is a Golf.", "The user's car is an Octavia now (was a Golf)."),
        ("My phone number is 555 4471.", "My phone number is now 555 0932."),
        ("My favorite band is Wet Leg.", "My favorite band is now Fontaines D.C."),
        ("The user's manager is Louise.", "These days my manager is Devika."),
        ("The user's job title is analyst.", "The user's job title is now senior analyst for tax."),
        ("My daily quota is 1,000 calls.", "My daily quota is now 1,200 calls."),
        ("Vivo en Madrid.", "Ya no vivo en Madrid."),
        ("El usuario vive en Madrid.", "Ya no vivo en Madrid."),
        ("Der Nutzer wohnt in Berlin.", "Ich wohne nicht mehr in Berlin."),
        ("Ich wohne in Berlin.", "Ich bin von Berlin nach Hamburg gezogen."),
        ("Ich trinke Kaffee.", "Ich trinke nicht mehr Kaffee, sondern Tee."),
        ("Meine Chefin ist Ute Lang.", "Meine Chefin ist jetzt Eva Kurz."),
        ("Bebo café.", "Ahora bebo té en vez de café."),
        ("Mi dirección es Calle Sol 4.", "Mi dirección es ahora Calle Luna 9."),
    ],
)
def test_a_later_statement_about_one_attribute_closes_the_earlier(older: str, newer: str) -> None:
    assert closes(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Lives in Oslo.", "Spent the weekend in Bergen."),
        ("Lives in Oslo.", "Might move to Bergen."),
        ("My brother lives in Toronto.", "My brother moved into a bigger flat, still in Toronto."),
        ("I have a dog and a cat.", "I no longer have a dog."),
        ("The user likes the dog park.", "The user no longer has a dog."),
        ("I have two bikes.", "Sold the bike."),
        ("The user eats meat.", "The user's sister no longer eats meat."),
        ("Mila's exam is on 4 May.", "Jonas's exam moved to 9 May."),
        ("Order 4711 was shipped on 3 May.", "Order 4822 was shipped on 9 May."),
        ("The user sees the dentist on 3 May.", "The user sees the dentist on 4 May."),
        ("I lived in Oslo.", "I no longer live in Oslo."),
        ("Wohnt in Oslo.", "Wohnt jetzt in Bergen."),
        ("I develop apps for Android.", "I switched from Android to iPhone."),
        ("I own a house in Oslo.", "I moved from Oslo to Bergen."),
        ("I work in Oslo.", "I moved from Oslo to Bergen."),
        ("The user likes coffee.", "The user switched from coffee to tea this morning."),
        ("My work phone number is 555 4471.", "My private phone number is now 555 0932."),
        ("My favorite band is Wet Leg.", "My favorite song is now Chaise Longue."),
        ("My sister's favorite band is Wet Leg.", "My favorite band is now Fontaines D.C."),
        ("My dentist is Dr Weber.", "My dentist is now closed on Mondays."),
        ("My laptop is fast.", "My laptop is now at the repair shop."),
        ("My job is stressful.", "My job is now remote."),
        ("La hermana del usuario vive en Madrid.", "Ya no vivo en Madrid."),
        ("Ich arbeite in Berlin.", "Ich bin von Berlin nach Hamburg gezogen."),
        ("Meine Chefin ist Ute Lang.", "Meine Chefin ist jetzt im Urlaub."),
        ("Trabajo en Madrid.", "Me mudé de Madrid a Vigo."),
        ("I live in Madrid.", "Ya no vivo en Madrid."),
        ("Books guide me, so I never give them up.", "This one reminds me to never give up."),
        ("I've been travelling from Miami.", "I actually have not been. I will note it."),
        ("But he's able to come to terms with it.", "But now they're just in everything."),
    ],
)
def test_in_doubt_nothing_is_closed(older: str, newer: str) -> None:
    assert not closes(older, newer)


def test_only_a_later_statement_of_the_same_speaker_closes() -> None:
    older = Statement("I live in Oslo.", EARLY, "ana")
    newer = Statement("I live in Bergen now.", LATE, "ana")
    assert closes_span(older, newer)
    assert not closes_span(newer, older)
    assert not closes_span(older, Statement(newer.text, EARLY, "ana"))
    assert not closes_span(older, Statement(newer.text, LATE, "tom"))


@given(TEXTS, TEXTS)
def test_two_statements_never_close_each_other(one: str, other: str) -> None:
    first = Statement(one, EARLY)
    second = Statement(other, LATE)
    assert not (closes_span(first, second) and closes_span(second, first))
    assert not closes(one, one)


@pytest.mark.parametrize("language", time_rules.LANGUAGES)
def test_no_span_is_closed_wrongly_on_the_labelled_pairs(language: str) -> None:
    pairs = [pair for half in time_rules.HALVES for pair in time_rules.load_lines("pairs", language, half)]
    tally = time_rules.tally_pairs(pairs)
    assert tally.wrong <= 0.01 * (tally.right + tally.wrong)
    assert language != "en" or tally.right >= 24


def test_no_span_is_closed_wrongly_on_the_pairs_of_replaced_statements() -> None:
    found = ((pair.superseded, closes(pair.older, pair.newer)) for pair in stale_pairs.load_pairs())
    tally = stale_pairs.count_findings(found)
    assert (tally.wrong, tally.recall >= 0.45) == (0, True)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Oslo.", "I moved to Linux."),
        ("I live in Oslo.", "I moved to Chapter 3 of the book."),
        ("I work at Acme.", "I joined Slack."),
        ("I drink coffee.", "I stopped drinking coffee at breakfast."),
        ("I drink alcohol.", "I stopped drinking alcohol on weekdays."),
        ("I eat bread.", "I stopped eating bread to take your call."),
        ("Maria volunteers at an animal shelter.", "Maria brought cakes to the shelter last week and is keen to help."),
        ("John is running for the council again.", "John decided to run again, although he lost before."),
        ("Nate finds turtles calming.", "Nate upgraded some equipment at home for his games."),
        ("John mentors underserved families.", "John got promoted at work and is excited about it."),
        ("Currently studying in the library!", "I recently tried the yoga poses, and they were fantastic."),
        ("I'm planning to take a cooking class today!", "As for me, I look forward to my cooking class tonight."),
        ("I was not ready to go to the next step with her.", "Is it good? I've never read it"),
        ("I'm trying to understand medians.", "I'm trying to understand why the criterion doesn't always work."),
        ("I'm worried about burnout, so I stop at ten.", "I'm feeling confident after finishing my draft."),
    ],
)
def test_a_word_of_change_about_something_else_closes_nothing(older: str, newer: str) -> None:
    assert not closes(older, newer)


def test_a_text_tells_all_of_a_statement_of_the_same_subject() -> None:
    assert tells_all("The user has a dog named Max.", "I have a dog")
    assert not tells_all("The user has a dog named Max.", "I have a cat")
    assert not tells_all("Ana has a dog.", "I have a dog")


@settings(max_examples=300)
@given(STATEMENTS, STATEMENTS)
def test_a_neighbour_that_is_not_parsed_would_not_be_closed(older: str, newer: str) -> None:
    ending = read_ending(newer)
    is_skipped = ending is None or not (ending.is_marked or ending.is_worded_like(older))
    assert not is_skipped or judge_english(older, newer) is None


def test_few_neighbours_need_to_be_parsed() -> None:
    plain = read_ending("The user uses tea strainers.")
    assert plain is not None
    assert not plain.is_marked
    assert plain.is_worded_like("The user uses coffee filters.")
    assert not plain.is_worded_like("The user lives in Oslo.")
    assert read_ending("The user still lives in Oslo.") is None
