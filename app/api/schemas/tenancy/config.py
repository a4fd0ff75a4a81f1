"""Bodies of /tenant/config (`docs/tenant-rules.md`)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from mnema_wire.bases import Request
from mnema_wire.fields import Identifier, Whole
from pydantic import BaseModel, ConfigDict, Field

from app.config.loader import Policies
from app.domain.tenancy.rules import RulesChange, RulesVersion

MAX_VERSION = 999_999_999
Version = Annotated[int, Field(ge=0, le=MAX_VERSION, strict=True), Whole]
Document = Annotated[
    dict[str, Any],
    Field(
        description="the tenant's own document: `categories`, `allowlists` and sections of policies.yaml",
        examples=[{"categories": {"custom": [{"name": "recipes"}]}, "allowlists": {"cook": ["profile", "recipes"]}}],
    ),
]


class CategoryRuleOut(BaseModel):
    """A category of the tenant."""

    model_config = ConfigDict(from_attributes=True)
    name: str
    context: Literal["all", "rag"]
    rag_length: int
    min_relevance: float | None = Field(description="null: the value of the section `query`, else that of the model")
    label: str | None
    description: str | None
    numeric_update: bool
    fallback: bool


class EffectiveRulesOut(BaseModel):
    """The categories and allowlists in force: the tenant's document over the defaults."""

    categories: list[CategoryRuleOut]
    allowlists: dict[str, list[str]]

    @classmethod
    def from_policies(cls, policies: Policies) -> "EffectiveRulesOut":
        """Return the body for a tenant's policies."""
        known = policies.categories
        return cls(
            categories=[CategoryRuleOut.model_validate(category) for category in known.categories.values()],
            allowlists={agent: list(names) for agent, names in known.allowlists.items()},
        )


class RulesVersionOut(BaseModel):
    """A version of the rules, without its document."""

    model_config = ConfigDict(from_attributes=True)
    version: int = Field(description="0: the defaults alone")
    actor: str | None = Field(description="who made it")
    note: str | None
    created_at: datetime | None


class StoredRulesOut(RulesVersionOut):
    """A version of the rules with its document."""

    document: Document

    @classmethod
    def from_version(cls, version: RulesVersion) -> "StoredRulesOut":
        """Return the body for a domain object."""
        return cls(**{name: getattr(version, name) for name in cls.model_fields})


class RulesOut(StoredRulesOut):
    """The rules in force."""

    effective: EffectiveRulesOut


class RulesHistoryOut(BaseModel):
    """A page of versions, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[RulesVersionOut]
    next_cursor: str | None = None


class RulesChangeOut(BaseModel):
    """The result of a change of the rules. With `dry_run`, what it would be."""

    version: int = Field(description="the version in force afterwards")
    diff: list[str] = Field(description="the lines of a unified diff of the documents as YAML")
    moved: dict[str, int] = Field(description="memories and facts that moved, by their former category")
    warnings: list[str] = Field(description="what the rules no longer cover, such as keys of unknown agents")

    @classmethod
    def from_change(cls, change: RulesChange) -> "RulesChangeOut":
        """Return the body for a domain object."""
        return cls(
            version=change.version,
            diff=list(change.diff),
            moved=dict(change.moved),
            warnings=list(change.warnings),
        )


class RulesDiffOut(BaseModel):
    """The difference of two versions, as the lines of a unified diff of their documents as YAML."""

    from_version: int
    to_version: int
    diff: list[str]


class RollbackIn(Request):
    """A version to put in force again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"version": 0}]})
    version: Version = Field(description="0: the defaults alone")
    move: Annotated[dict[Identifier, Identifier], Field(max_length=200)] = Field(
        default={}, description="categories that the version lacks, each with the one that its memories move to"
    )
    dry_run: Annotated[bool, Field(strict=True)] = False

    def moves(self) -> Mapping[str, str]:
        """Return the moves by category."""
        return self.move
