"""The pure functions that read a caller's text."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import httpx2
from mnema_cli.mirror.rules import entries as mirror
from mnema_cli.mirror.rules import names
from mnema_wire import blocks, marks

from app.config import tenant_documents as rule_documents
from app.domain import client_prompts, equal_texts, ids, languages, text_rules, tombstones
from app.domain.agent_state import store_items as store
from app.domain.chat import answer as chat_answer
from app.domain.chat import request as chat_request
from app.domain.chat import thoughts
from app.domain.chat.dialect import Dialect
from app.domain.chat.dialects.completions import CHAT_COMPLETIONS
from app.domain.chat.dialects.messages import MESSAGES
from app.domain.chat.dialects.responses import RESPONSES
from app.domain.consent import answers as consent_answers
from app.domain.facts import cleaning, fillers, orders, questions, ranked_lists, retractions, spelling, touches
from app.domain.facts import statements as fact_statements
from app.domain.facts import topics as fact_topics
from app.domain.facts import values as fact_values
from app.domain.memory import listing, procedures, same_fact, spellings
from app.domain.memory.memory import MemoryType
from app.domain.recall import closing, near_duplicates, statements, supersession, wording
from app.domain.recall import delta_header as delta
from app.domain.recall import time_spans as dates
from app.domain.reflection import capture, commands, evidence, grounding, notes, reconcile, workflows
from app.domain.reflection import echoes as own_words
from app.domain.reflection import fact_extraction as multi_fact
from app.domain.reflection import self_disclosure as telling
from app.domain.reflection import writing_rules as writing
from app.domain.rendering import lines, model_text
from app.domain.retention.portable import PortableRecord
from app.domain.sources import chunk_matching
from app.domain.sources import chunking as source_chunking
from app.domain.sources import paths as source_paths
from app.domain.sources.document import Chunk, Section
from app.domain.turn_memory import buckets, extraction, feedback, views
from app.domain.where import parsing as where_parsing
from app.domain.where import paths as where_paths
from app.domain.where.tree import Leaf
from app.prompts import ctx_reconciler
from app.prompts import fact_extraction as fact_prompt
from app.providers.chat_models.answers import build_reader
from app.providers.embeddings import batches, endpoint_answers
from app.providers.parsing import plain
from tests.adversarial.cpu import Work

TAGS: Final = marks.collect_tag_names(["tasks", "knowledge"])
TYPES: Final = ("semantic", "episodic", "insight", "turn", "summary", "chunk", "procedural")
ANY: Final = text_rules.TextLimits(**dict.fromkeys(TYPES, 1 << 40))
USUAL: Final = text_rules.TextLimits()
MARKS: Final = own_words.EchoMarks(("goals", "tasks"), ("city",), ("goals", "tone"))
TURN: Final = 16_000
CAPTURE: Final = capture.CapturePolicy(
    tuple(capture.CaptureRule(form, "goals") for form in capture.FORMS), max_characters=1 << 40
)
NOW: Final = datetime(2026, 4, 1, tzinfo=UTC)
KNOWN: Final = [retractions.KnownFact(None, "favorite_colors", None, value, True) for value in ("teal", "a b", "。」")]
TOPICS: Final = fact_topics.FactTopics({"favorite_colors": ("color",), "favorite_tv": ("show", "tv show")})

FACTS: Final = build_reader(fact_prompt.Answer)


def chat_body(text: str) -> bytes:
    """Return a chat with this text as its message, as part of it, and as the name of a field."""
    parts = [{"type": "text", "text": text}, {"type": "text", "text": text[:100]}]
    message = {"role": "user", "content": parts}
    return json.dumps({text: 1, "memory_id": "c", "messages": [message], "input": [message]}).encode()


def make_turn(text: str) -> dict[str, object]:
    """Return a turn with this text in every place."""
    names = ("turn_id", "made_at", "ts", "objective", "text", "user", "assistant", "summary", "origin", "reaction")
    signals = [{"key": text, "value": [text], "scope": text, "severity": text}, text]
    return dict.fromkeys(names, text) | {"topics": [text], "facts": signals, "assistant_signals": signals}


def show_views(text: str) -> list[list[views.Block]]:
    """Return all views of a conversation of such a turn."""
    turns = [make_turn(text)]
    rows = views.ContextRows(None, turns, turns, turns, turns[0], turns[0], turns, turns)
    return [views.build_view(views.ViewRequest(view, "turn", [text]), rows, NOW) for view in views.ViewName]


def cut_source(text: str) -> list[int]:
    """Cut a text with a section for every 8 characters."""
    sections = [Section(at, min(at + 8, len(text))) for at in range(0, len(text), 8)]
    spans = list(source_chunking.cut_segments(text, sections, 200))
    finder = source_chunking.SectionFinder(sections)
    joined = source_chunking.join_short([(at, at + 8) for at in range(0, len(text) - 8, 8)], 200)
    backs = [source_chunking.extend_back(text, start, max(0, start - 60), 50) for start, _ in joined]
    return backs + [finder.find_section(start, end) for start, end in spans]


def match_source(text: str) -> object:
    """Match chunks of 8 characters with the same chunks in another order."""
    parts = [text[at : at + 8] for at in range(0, len(text), 8)]
    new = [Chunk(n, 8 * n, 8 * n + len(part), part) for n, part in enumerate(parts)]
    digests = [chunk_matching.hash_text(part) for part in reversed(parts)]
    old = [
        chunk_matching.StoredChunk(UUID(int=n), digest, n, n, n + 1, None, (), "") for n, digest in enumerate(digests)
    ]
    return chunk_matching.match_chunks(old, new).moved


def read_turn(said: str, quote: str, value: str) -> object:
    """Read a model's answer with as many signals as are read."""
    signal = {"key": "k", "value": value, "severity": "must", "scope": "thread", "applies_to": "", "quote": quote}
    ids = [value] * 100
    answer = ctx_reconciler.Answer(
        objective=value,
        topics=ids,
        assertions=[signal] * 40,
        exceptions=[],
        facts=[],
        turn_ids=ids,
        memory_bucket_ids=ids,
        local_memories_turn_ids=ids,
    )
    journal = extraction.Journal(model_text.ModelText(value), [f"turn-{number}" for number in range(32)])
    return ctx_reconciler.read_ctx_reconciler(said, journal, answer)


def put_before(text: str, dialect: Dialect = CHAT_COMPLETIONS) -> bytes:
    """Put a text before the message of a request that has it, too."""
    return chat_request.read_chat_request(chat_body(text), dialect).forwarded_body(model_text.ModelText(text))


def completion_stream() -> chat_answer.EventStream:
    """Return a reader of a stream of Chat Completions."""
    return chat_answer.EventStream(100, CHAT_COMPLETIONS.new_reader())


def read_stream(dialect: Dialect, kind: str, text: str) -> bytes:
    """Read a stream with this text as what is said, and as the bytes of an event."""
    stream = chat_answer.EventStream(100, dialect.new_reader())
    event = json.dumps({"type": kind, "delta": text, "index": 1, "output_index": text})
    return stream.feed(f"data: {event}\n\ndata: {text}\n\n".encode())


def match_patterns(text: str) -> None:
    """Match a path of this text with patterns of many wildcards, and patterns of this text with a path."""
    wild = source_paths.parse_rules(("*a" * 90 + "b", "**/a/" * 30 + "b", "?*" * 90), ("*/**/" * 30 + "b",))
    wild.takes_file((text[:255], *text[:600].split("/")))
    source_paths.parse_rules((text[:200],), (f"**/{text[:150]}",)).takes_file(text[:1_000].split("/"))


FUNCTIONS: Final[Mapping[str, Work]] = {
    "check_text": lambda text: text_rules.check_text(text, "turn", ANY, trim=True),
    "check_text, usual": lambda text: text_rules.check_text(text, "turn", USUAL, trim=True),
    "text_key": text_rules.text_key,
    "compute_tombstones": lambda text: tombstones.compute_tombstones(b"", UUID(int=0), "", [text], []),
    "trim_text": lambda text: text_rules.trim_text(text, len(text) - 1),
    "pieces": lambda text: text_rules.split_text(text, 6000),
    "sentence_ends": text_rules.sentence_ends,
    "broken_rule": lambda text: writing.broken_rule(text, MemoryType.semantic, ANY),
    "broken_rule, a sentence": lambda text: writing.broken_rule(f"The user {text}", MemoryType.episodic, ANY),
    "mended": lambda text: writing.shorten_text(f"The user {text}", MemoryType.summary, USUAL),
    "canonical_spelling": spellings.canonical_spelling,
    "canonical_spelling, numbers": lambda text: spellings.canonical_spelling(f"1/2 {text} 3 pm"),
    "hyphens_clash": lambda text: spellings.hyphens_clash(text, f"a-b {text}"),
    "same_fact": lambda text: same_fact.same_fact(text, f"x {text}", numeric_update=True),
    "same_fact, compared": lambda text: same_fact.same_fact(text[:1990], f"x {text[:1990]}", numeric_update=True),
    "own_words": lambda text: own_words.strip_echoes(f"{text}\n\n{text}", MARKS),
    "tells_of_self, a sentence": lambda text: telling.discloses_fact(f"I like {text}"),
    "capture, a sentence": lambda text: capture.capture_facts(f"I like {text}", CAPTURE, ANY),
    "capture, my": lambda text: capture.capture_facts(f"My sister {text}", CAPTURE, ANY),
    "capture, a rule": lambda text: capture.capture_facts(f"Never send {text}", CAPTURE, ANY),
    "capture, a date": lambda text: capture.capture_facts(f"The launch moved to {text}", CAPTURE, ANY),
    "spans": lambda text: dates.find_spans(text, NOW, UTC),
    "is_superseded": lambda text: supersession.is_superseded(
        supersession.Statement(f"Nora lives in {text}", NOW),
        supersession.Statement(f"Nora now lives in {text[1:]}", NOW + timedelta(1)),
    ),
    "closes_span": lambda text: closing.closes_span(
        supersession.Statement(f"I have a {text}"[:500], NOW),
        supersession.Statement(f"I no longer have a {text}"[:500], NOW + timedelta(1)),
    ),
    "read_commands": lambda text: commands.read_commands(f"Forget that I {text}"),
    "choose_actions": lambda text: commands.read_commands(f"Forget my {text}").choose_actions(
        [commands.StoredStatement(supersession.Statement(text, NOW), is_turn=True)],
        supersession.Statement(f"Forget my {text}", NOW + timedelta(1)),
    ),
    "replaces_value": lambda text: supersession.replaces_value(
        statements.parse_statement(f"{text} is open"), statements.parse_statement(f"{text} is now closed")
    ),
    "say_the_same": lambda text: near_duplicates.say_the_same(f"Nora {text}", f"{text} Nora", 0.9),
    "say_the_same, English": lambda text: near_duplicates.say_the_same(
        f"Nora likes the {text}"[:500], f"By the way, Nora likes the {text}"[:500], 0.9
    ),
    "fold_text": equal_texts.fold_text,
    "fold_text, wide": lambda text: equal_texts.fold_text(f"、{text}"),
    "read_wording": wording.read_wording,
    "is_surely_english": languages.is_surely_english,
    "is_surely_english, a sentence": lambda text: languages.is_surely_english(f"Nora likes the {text}"),
    "reading": consent_answers.classify_answer,
    "citation_line": lambda text: lines.citation_line(1, text, TAGS, category=text, label=[text]),
    "defuse_marks": lambda text: marks.defuse_marks(text, TAGS),
    "defuse_marks, words": lambda text: marks.defuse_marks(f"[a {text}] [M {text} Current {text}message:", TAGS),
    "defuse_marks, entities": lambda text: marks.defuse_marks(text.replace("[", "&#91;"), TAGS),
    "bullet": lambda text: lines.bullet(text, text, TAGS),
    "identified_line": lambda text: lines.identified_line(model_text.ModelText(text), UUID(int=0), NOW),
    "cut_to_tokens": lambda text: batches.cut_to_tokens(text, batches.estimate_text_tokens(text) - 1),
    "read_refusal": lambda text: endpoint_answers.read_refusal(httpx2.Response(400, content=text.encode())),
    "fact_line": lambda text: (lines.fact_line(text, 1, text, text), lines.fact_value(text)),
    "profile_line": lambda text: lines.profile_line([(text, text), ("goals", text)]),
    "check_steps": procedures.check_steps,
    "tells_steps": workflows.tells_steps,
    "check_identifier": ids.check_identifier,
    "render_header": lambda text: delta.render_header(1, [delta.DeltaEntry(1, "updated", "goals", None, text, 3)]),
    "texts_at": lambda text: list(store.texts_at({"a": {"a": "b"}}, text)),
    "texts_of": lambda text: store.indexed_texts(store.PutItem(("n",), "k", {"a": text}, ("a", "{a,a, a}", "$"))),
    "check_batch": lambda text: store.check_batch(store.Batch(puts=(store.PutItem((text,), text, {"a": text}),))),
    "parse_metadata": lambda text: (listing.parse_metadata(f"k:{text}"), listing.parse_metadata(text + ":1")),
    "read_where": where_parsing.read_where,
    "parse_where, a path": lambda text: where_parsing.parse_where({f"metadata.{text}": text}),
    "parse_where, a name": lambda text: where_parsing.parse_where({text: {text: text}}),
    "render_where": lambda text: where_paths.render_where(Leaf("metadata", "contains", (text,), (text,))),
    "with_new_ids": lambda text: PortableRecord("turn", {"at": [text, {text: text}]}, refs=("at",)).with_new_ids(
        UUID(int=0)
    ),
    "clean_message": cleaning.clean_message,
    "read_marks": ranked_lists.read_marks,
    "find_topic": lambda text: TOPICS.find_topic(text.split()),
    "read_statements": lambda text: fact_statements.read_statements(text, TOPICS),
    "read_statements, values": lambda text: fact_statements.read_statements(f"My favorite colors are {text}", TOPICS),
    "read_statements, inverted": lambda text: fact_statements.read_statements(f"{text} is my favorite color", TOPICS),
    "read_statements, added": lambda text: fact_statements.read_statements(f"Add {text} to my favorite colors", TOPICS),
    "read_statements, a list": lambda text: fact_statements.read_statements(f"My favorite colors:\n{text}", TOPICS),
    "read_statements, counted": lambda text: fact_statements.read_statements(
        f"I have two favorite colors: {text}", TOPICS
    ),
    "read_statements, in order": lambda text: fact_statements.read_statements(f"My top colors: 1st {text}", TOPICS),
    "read_statements, replaced": lambda text: fact_statements.read_statements(
        f"Replace {text} in my favorite colors", TOPICS
    ),
    "read_statements, answered": lambda text: fact_statements.read_statements(f"My favorite color? {text}", TOPICS),
    "read_statements, after": lambda text: fact_statements.read_statements(f"{text}\nare my favorite colors", TOPICS),
    "read_statements, elliptic": lambda text: fact_statements.read_statements(f"My second isn't {text}", TOPICS),
    "number_lines": lambda text: orders.number_lines(text[:32_000].split("\n")),
    "mark_ranks": lambda text: orders.mark_ranks(f"1 - {text[:32_000]}"),
    "read_order": lambda text: orders.read_order(f"first is {text[:32_000]}"),
    "normalize_spelling": lambda text: spelling.normalize_spelling(text[:32_000]),
    "drop_asides": lambda text: fillers.drop_asides(text[:32_000]),
    "hide_separators": lambda text: fact_values.hide_separators(text[:32_000]),
    "read_retractions": lambda text: retractions.read_retractions(text, KNOWN, TOPICS),
    "touched_topics": lambda text: touches.touched_topics([text], {"favorite_colors"}, TOPICS),
    "touched_topics, a preference": lambda text: touches.touched_topics([f"best {text}"], {"favorite_colors"}, TOPICS),
    "read_retractions, a correction": lambda text: retractions.read_retractions(f"Actually, {text}", KNOWN, TOPICS),
    "strip_thoughts": lambda text: (thoughts.strip_thoughts(text), thoughts.shorten_thoughts(f"<think>{text}")),
    "read_answer": lambda text: FACTS.read_answer(text),
    "read_answer, thoughts": lambda text: FACTS.read_answer("", text),
    "read_answer, an item": lambda text: FACTS.read_answer(f'{{"facts": [{{"text": "{text}'),
    "read_answer, a list": lambda text: FACTS.read_answer(f'{{"facts": [{text}'),
    "is_client_prompt": lambda text: client_prompts.is_client_prompt(f"### Task:\n{text}"),
    "find_user_words": lambda text: client_prompts.find_user_words(f"### Task:\nRespond to the user query\n{text}"),
    "read_notes": lambda text: list(notes.read_notes(text)),
    "parse_question": lambda text: questions.parse_question(text, TOPICS),
    "parse_question, a list": lambda text: questions.parse_question(f"list my favorite colors and {text}", TOPICS),
    "share_words": lambda text: feedback.share_words(text, [text]),
    "cut_segments": cut_source,
    "show_path": lambda text: (source_paths.show_path(text), source_paths.split_path("a" + text[:1_000])),
    "takes_file": match_patterns,
    "find_rst_headings": plain.find_rst_headings,
    "bucket_id": lambda text: (buckets.bucket_id(text), buckets.bucket_words(text)),
    "read_chat_request": put_before,
    "read_chat_request, raw": lambda text: chat_request.read_chat_request(text.encode(), CHAT_COMPLETIONS),
    "read_chat_request, members": lambda text: chat_request.read_chat_request(
        b"{" + text.encode() + b"}", CHAT_COMPLETIONS
    ),
    "read_chat_request, Responses": lambda text: put_before(text, RESPONSES),
    "read_chat_request, Messages": lambda text: put_before(text, MESSAGES),
    "chat_preface": lambda text: lines.chat_preface(text, [(text, text)]),
    "EventStream": lambda text: completion_stream().feed(text.encode()),
    "EventStream, lines": lambda text: completion_stream().feed(text.replace("a", "\ndata: x").encode()),
    "EventStream, Responses": lambda text: read_stream(RESPONSES, "response.output_text.delta", text),
    "EventStream, Messages": lambda text: read_stream(MESSAGES, "content_block_delta", text),
    "is_client_note": lambda text: client_prompts.is_client_note(f"<system-reminder>{text}"),
    "is_client_prompt, no heading": lambda text: client_prompts.is_client_prompt(f"Generate a title {text}"),
    "read_plain_answer": lambda text: chat_answer.read_plain_answer(text.encode(), CHAT_COMPLETIONS),
    "format_turn_memories_block": lambda text: blocks.format_turn_memories_block([make_turn(text)]),
    "format_feedback_block": lambda text: blocks.format_feedback_block([make_turn(text)], now=NOW),
    "format_assistant_signals_block": lambda text: blocks.format_assistant_signals_block([make_turn(text)], now=NOW),
    "match_chunks": match_source,
    "parse_file": lambda text: mirror.render_file(mirror.parse_file(text.encode())),
    "parse_file, front matter": lambda text: mirror.parse_file(f"---\n{text}\n---\n{text}".encode()),
    "parse_file, values": lambda text: mirror.parse_file(
        "\n".join((f"---\nid: '{text}", f'role: "{text}', f"x: {text}", "---")).encode()
    ),
    "encode_name": lambda text: (names.encode_name(text), names.decode_name(text), names.classify_name(text)),
    "place_of": lambda text: (mirror.place_of(f"entries/{text}", {}), mirror.id_of_name(f"a__{text}.md")),
    # a conversation's views show each text some hundred times
    "build_view": lambda text: show_views(text[:2000]),
    # these read word by word and take some microseconds for each character of a turn
    "foreign": lambda text: grounding.find_foreign("The user has 3 bees.", text[:TURN]),
    "find_quote": lambda text: (grounding.find_quote(text, text), grounding.find_quote(text[:99], text + text[:98])),
    "candidate": lambda text: multi_fact.broken_rule(
        multi_fact.Candidate("The user has 3 bees.", "goals", 3, text[:2000]), text[:TURN], ["goals"], USUAL
    ),
    "read_ctx_reconciler, the message": lambda text: read_turn(text, "the user", text[:300]),
    "read_ctx_reconciler, the answer": lambda text: read_turn(f"the user said {text[:400]}", text, text),
    "parse_yaml": lambda text: rule_documents.parse_yaml(text[:4000].encode()),
    "parse_yaml, a list": lambda text: rule_documents.parse_yaml(b"allowlists: {a: [" + text[:4000].encode() + b"]}"),
    "compare_documents": lambda text: rule_documents.compare_documents(
        {"a": text[:4000].split(" ")}, {"a": text[:4000].split("a")}, ("1", "2")
    ),
    "find_entry": lambda text: extraction.read_signal_spec(text[:8000]).find_entry(text[:120]),
    "find_refusal": lambda text: evidence.find_refusal(
        "The user works at Acme as a driver.",
        "The user works at Zenbo as a driver.",
        evidence.Evidence(text[:TURN], (evidence.Message("assistant", text[:TURN]),)),
    ),
    "find_refusal, a deletion": lambda text: evidence.find_refusal(
        "The user works at Acme.", None, evidence.Evidence(f"I left Acme {text[:TURN]}", ())
    ),
    "composed": lambda text: reconcile.checked_composition(f"The user {text[:200]}", text[:280], text[:280], USUAL),
}
