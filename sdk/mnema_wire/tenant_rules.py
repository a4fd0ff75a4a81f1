"""A tenant's own rules and their versions."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Page, Request, words
from mnema_wire.fields import Identifier, Whole

MAX_VERSION = 999_999_999
Version = Annotated[int, Field(ge=0, le=MAX_VERSION, strict=True), Whole]
Document = Annotated[
    dict[str, Any],
    Field(
        description="the tenant's own document: `categories`, `allowlists` and sections of policies.yaml",
        examples=[{"categories": {"custom": [{"name": "recipes"}]}, "allowlists": {"cook": ["profile", "recipes"]}}],
    ),
]


class CategoryRule(Answered):
    """A category of the tenant."""

    model_config = ConfigDict(from_attributes=True)
    name: str
    context: Annotated[str, words("all", "rag")]
    rag_length: int
    min_relevance: float | None = Field(description="null: the value of the section `query`, else that of the model")
    label: str | None
    description: str | None
    numeric_update: bool
    fallback: bool
    expires_after_days: int | None = Field(default=None, description="age of expiry without expires_at; null: never")


class EffectiveRules(Answered):
    """The categories and allowlists in force: the tenant's document over the defaults."""

    categories: list[CategoryRule]
    allowlists: dict[str, list[str]]


class RulesVersion(Answered):
    """A version of the rules, without its document."""

    model_config = ConfigDict(from_attributes=True)
    version: int = Field(description="0: the defaults alone")
    actor: str | None = Field(description="who made it")
    note: str | None
    created_at: datetime | None


class StoredRules(RulesVersion):
    """A version of the rules with its document."""

    document: Document


class TenantRules(StoredRules):
    """The rules in force."""

    effective: EffectiveRules


class RulesHistory(Page[RulesVersion]):
    """A page of versions, newest first. Pass `next_cursor` as `cursor` for the next page."""


class RulesChange(Answered):
    """The result of a change of the rules. With `dry_run`, what it would be."""

    version: int = Field(description="the version in force afterwards")
    diff: list[str] = Field(description="the lines of a unified diff of the documents as YAML")
    moved: dict[str, int] = Field(description="memories and facts that moved, by their former category")
    warnings: list[str] = Field(description="what the rules no longer cover, such as keys of unknown agents")


class RulesDiff(Answered):
    """The difference of two versions, as the lines of a unified diff of their documents as YAML."""

    from_version: int
    to_version: int
    diff: list[str]


class Rollback(Request):
    """A version to put in force again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"version": 0}]})
    version: Version = Field(description="0: the defaults alone")
    move: Annotated[dict[Identifier, Identifier], Field(max_length=200)] = Field(
        default={}, description="categories that the version lacks, each with the one that its memories move to"
    )
    dry_run: Annotated[bool, Field(strict=True)] = False
