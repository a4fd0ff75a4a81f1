"""Mentions of a user's own favorites: "my second favorite color", "my top 3 movies"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from app.domain import english
from app.domain.facts.nouns import is_plural, read_noun
from app.domain.facts.phrases import MY_FAVORITE, to_rank
from app.domain.facts.topics import FactTopics

_EN: Final = english.patterns("facts", "mentions")

_PRONOUNS: Final = (("one",), ("ones",))


@dataclass(frozen=True, slots=True)
class Mention:
    """Words of a text that name favorites.

    `start` and `end` are offsets. `owner` is "my", "have" ("I have two favorite colors"), "a" ("a favorite color of
    mine") or nothing ("Favorite colors: …"). `topic` is None if the words have no noun, or one without a topic; `noun`
    is that noun. `favorite` is False for "my top 3 movies", which needs a canonical noun. `count` is the 3 of "my top 3
    movies". `listed`: the words are like "my favorite color list".
    """

    start: int
    end: int
    owner: Literal["my", "have", "a", ""]
    noun: tuple[str, ...]
    topic: str | None
    ranks: tuple[int, ...]
    count: int | None
    favorite: bool
    listed: bool = False

    @property
    def plural(self) -> bool:
        """Tell whether the noun is a plural, or the words name a list."""
        return bool(self.noun) and (self.listed or is_plural(self.noun[-1]))

    @property
    def elliptic(self) -> bool:
        """Tell whether the words leave the noun out: "my second is …", "my favorite one is …"."""
        return (not self.noun or self.noun in _PRONOUNS) and (self.favorite or bool(self.ranks)) and self.owner == "my"


def find_mentions(text: str, topics: FactTopics, *, continued: bool = False) -> Iterator[Mention]:
    """Yield the mentions in a line with single blanks. Linear.

    `continued`: a later "favorite food" without "my" is the user's own after one that is.
    """
    end = 0
    owner = None
    for match in MY_FAVORITE.finditer(text):
        further = match["bare"] is not None and match.start() > 0
        if further and (mention := _read_mention(match, text, topics)) and text.startswith(" of mine", mention.end):
            end = mention.end
            owner = "a"
            yield replace(mention, owner="a")
            continue
        if further and not (continued and owner in ("my", "")):
            continue
        if match.end() > end and (mention := _read_mention(match, text, topics)):
            end = mention.end
            owner = mention.owner
            yield replace(mention, owner="my") if further else mention


def _read_mention(match: re.Match[str], text: str, topics: FactTopics) -> Mention | None:
    """Return the mention whose words before the noun `match` has found, or None if they name no favorite."""
    favorite = match["favorite"] is not None
    if not favorite and (not match["my"] or not (match["top"] or match["best"] or match["rank"] or match["number"])):
        return None
    # without "favorite" the match ends at the blank before the noun
    blank = favorite or text[match.end() - 1] != " "
    noun, end = read_noun(text, match.end() if blank else match.end() - 1)
    ranks = tuple(to_rank(words) for words in (match["rank"], match["other"]) if words)
    if not ranks and (later := _EN.later_rank.match(text, end)):
        ranks = (to_rank(later["rank"]),)
        end = later.end()
    if noun and (listed := _EN.list.match(text, end)):
        end = listed.end()
    count = match["count"] or match["number"] or match["later"]
    return Mention(
        start=match.start(),
        end=end,
        owner="my" if match["my"] or match["listed"] else "have" if match["have"] else "a" if match["a"] else "",
        noun=noun,
        topic=topics.find_topic(noun) if favorite else topics.find_canonical(noun),
        ranks=ranks,
        count=to_rank(count) if count else None,
        favorite=favorite,
        listed=bool(noun) and text[:end].lower().endswith((" list", " ranking")),
    )
