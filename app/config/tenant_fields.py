"""The fields of policies.yaml that a tenant may set. The policies mark them. Only the installation sets the others."""

from collections.abc import Mapping
from typing import Any, Final

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
from app.domain.settable import Settable, marked_fields
from app.domain.sources.source_policy import SourcePolicy
from app.domain.turn_memory.policy import TurnMemoryPolicy

MAX_LISTED: Final = 200
"""Maximum names in a list."""
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


FIELDS: Final[Mapping[str, Mapping[str, Settable]]] = {
    name: marked_fields(policy, Settable) for name, policy in CLASSES.items()
}
"""The fields that a tenant may set, by section. `profiles` has names of its own, each with PROFILE_FIELDS."""
PROFILE_FIELDS: Final = marked_fields(RankingProfile, Settable)
