"""The fields of policies.yaml that a tenant may set, each with the range that protects the machine.

A field without a range is checked by its policy alone. Every other field is the installation's.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from app.config.loader import DeltaPolicy, QueryPolicy, TurnPolicy, WritePolicy
from app.domain.chat.policy import ChatPolicy
from app.domain.consent.patches import ConsentPolicy
from app.domain.consolidation.comparison import ConsolidationPolicy
from app.domain.facts.policy import FactPolicy
from app.domain.recall.profiles import RankingProfile
from app.domain.reflection.episodes import EpisodePolicy
from app.domain.reflection.fact_extraction import FactExtractionPolicy
from app.domain.reflection.insights import InsightPolicy
from app.domain.reflection.reconcile import ReconcilePolicy
from app.domain.reflection.summaries import SummaryPolicy
from app.domain.retention.forgetting import ForgettingPolicy
from app.domain.sources.source_policy import SourcePolicy
from app.domain.turn_memory.policy import TurnMemoryPolicy

Range: TypeAlias = tuple[float, float] | None
DAYS: Final = (1, 36_500)
HOURS: Final = (0, 8_760)
COUNT: Final = (0, 1_000)
MINUTES: Final = (1, 10_080)
WEIGHT: Final = (-100, 100)
MAX_LISTED: Final = 200
"""The names that a list may have."""
MAX_PROFILES: Final = 50

CLASSES: Final[Mapping[str, type[Any]]] = {
    "write": WritePolicy,
    "query": QueryPolicy,
    "delta": DeltaPolicy,
    "lifecycle": ForgettingPolicy,
    "consolidation": ConsolidationPolicy,
    "multi_fact": FactExtractionPolicy,
    "episodes": EpisodePolicy,
    "summaries": SummaryPolicy,
    "insights": InsightPolicy,
    "reconcile": ReconcilePolicy,
    "consent": ConsentPolicy,
    "facts": FactPolicy,
    "chat": ChatPolicy,
    "turn_memory": TurnMemoryPolicy,
    "sources": SourcePolicy,
    "turns": TurnPolicy,
}
"""The policy of each section."""


def _unlimited(*names: str) -> dict[str, Range]:
    return dict.fromkeys(names)


FIELDS: Final[Mapping[str, Mapping[str, Range]]] = {
    "write": _unlimited("default_importance", "min_importance", "merge_mode"),
    "query": {
        **_unlimited("profile", "top_k", "budget_tokens", "min_relevance", "related", "snippet", "receipts"),
        "rag_length": (1, 1_000),
        "whole_limit": (1, 1_000),
    },
    "delta": _unlimited("bullets"),
    "lifecycle": {
        "forget_after_days": DAYS,
        "forget_below": (1, 6),
        "purge_after_days": DAYS,
        "max_entries": (1, 1_000_000),
        "events_days": DAYS,
        "receipts_days": DAYS,
    },
    "consolidation": {
        **_unlimited("pool_importance", "pool_top_share"),
        "pool_hours": HOURS,
        "compared_a_day": (1, 10_000),
        "max_age_days": DAYS,
        "fingerprint_days": DAYS,
    },
    "multi_fact": {
        **_unlimited("per_turn", "categories"),
        "min_characters": (1, 32_000),
        "confident_characters": (1, 32_000),
        "per_user_day": COUNT,
    },
    "episodes": {
        **_unlimited("rounds", "window", "join_at", "category"),
        "turns": COUNT,
        "minutes": MINUTES,
        "per_user_day": COUNT,
        "join_hours": HOURS,
    },
    "summaries": {
        **_unlimited("enable_summarization", "rounds", "window", "characters", "importance"),
        "turns": COUNT,
        "minutes": MINUTES,
    },
    "insights": {
        **_unlimited("activity", "facts", "talk_characters", "same_at", "category", "importance"),
        "hours": HOURS,
    },
    "reconcile": _unlimited("neighbours", "min_similarity", "tries"),
    "consent": {
        **_unlimited("sensitive", "benign", "category", "pending_days", "signals", "insight_confidence"),
        **_unlimited("rejected_days", "value_chars"),
        "pending": COUNT,
        "values": COUNT,
    },
    "facts": _unlimited("category", "across_threads", "max_rank", "value_chars"),
    "chat": {
        **_unlimited("profile", "default_top_k", "recency_weight", "score_threshold", "count_memories"),
        **_unlimited("memory_chars"),
    },
    "turn_memory": {
        **_unlimited("category", "last_turns", "feedback_items", "signal_turns", "days", "keep_days"),
        **_unlimited("reconcile_every"),
    },
    "sources": _unlimited("answer_chunks", "answer_share", "profile", "min_relevance"),
    "turns": _unlimited("category"),
}
"""The fields that a tenant may set, by section. `profiles` has names of its own, each with PROFILE_FIELDS."""

WEIGHTS: Final = (
    "dense",
    "lexical",
    "late",
    "rerank",
    "dense_alone",
    "lexical_alone",
    "neighbours",
    "actor",
    "asks",
    "session",
    "date",
    "importance",
    "pinned",
    "recency",
    "relation",
    "thread",
    "insight",
)
PROFILE_FIELDS: Final[Mapping[str, Range]] = {
    **_unlimited("fusion", "mmr_lambda"),
    **dict.fromkeys(WEIGHTS, WEIGHT),
    "recency_days": (0.001, 36_500),
    "score_threshold": (0, 1),
}
PROFILE: Final = RankingProfile
