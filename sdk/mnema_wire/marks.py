"""Marks of Mnema's formats inside texts that others wrote, and their defusal.

A model that reads a rendered text takes a mark in it, such as `[M1]` or `Current message:`, for Mnema's own. So a mark
that a raw text contains gets another, readable form before it is rendered: `(M1)`, `(Current-message)`. A mark counts
in any spelling that looks the same: other brackets, letters of other scripts, full width, with invisible characters.

The module uses the standard library alone, because the domain of the server uses it.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

TagNames = frozenset[str]
"""The names of tags such as `[tasks]`, folded: what stands in brackets before a line of ours."""
Edit = tuple[int, int, str]
"""A part of a text, from the first offset to before the second, and what takes its place."""

_HIDDEN: Final = "\u200b"
"""The folded form of each character that shows nothing, or only changes the character before it."""
_FILLERS: Final = "\u115f\u1160\u2800\u3164\uffa0"
_SQUARE: Final = "[［【〔〖〘〚⟦⟬⁅❲⦋⦍⦏⦗﹝﹇︹︻︗⎡⎢⎣⌈⌊", "]］】〕〗〙〛⟧⟭⁆❳⦌⦎⦐⦘﹞﹈︺︼︘⎤⎥⎦⌉⌋"
_QUOTING: Final = "⟨⟪〈《「『｢⸢⸤︿︽﹁﹃", "⟩⟫〉》」』｣⸣⸥﹀︾﹂﹄"
"""Brackets that quote or name in ordinary text. Only a citation in them is a mark."""
_DASHES: Final = "-‐‑‒–—―﹘﹣－"
_COLONS: Final = ":：﹕︓∶꞉ː˸׃"
_LOOK_ALIKES: Final = (
    # Greek, Cyrillic and other letters, and the Latin ones that they look like
    ("αβεζηικμνορτυχ", "abezhikmnoptyx"),
    ("авеёіїјкмнорстухѕԁһԛԝ", "abeeiijkmhopctyxsdhqw"),
    ("ᴍⲙꮇᎷꓟ𐌼ʍɴꜱ", "mmmmmmmns"),
)
_FOLDED: Final[dict[str, str]] = {
    **dict.fromkeys(_FILLERS, _HIDDEN),
    **dict.fromkeys(_SQUARE[0], "["),
    **dict.fromkeys(_SQUARE[1], "]"),
    **dict.fromkeys(_QUOTING[0], "⟨"),
    **dict.fromkeys(_QUOTING[1], "⟩"),
    **dict.fromkeys(_DASHES, "-"),
    **dict.fromkeys(_COLONS, ":"),
    **{alike: plain for alikes, letters in _LOOK_ALIKES for alike, plain in zip(alikes, letters, strict=True)},
}
_ENCLOSED: Final = (0x1F150, 0x1F170, 0x1F1E6)
"""The first of 26 enclosed capital letters, which have no compatibility decomposition."""
_LETTERS: Final = 26
_MOST_FOLDS: Final = 4096
"""Characters whose folded form is kept. More of them are folded again each time."""

_OPENING: Final = re.compile(r"[\[⟨]|&(?:#0{0,5}91|#x0{0,5}5b|lsqb|lbrack);")
_ENDING: Final = re.compile(r"[\[⟨]|(?P<closing>[\]⟩]|&(?:#0{0,5}93|#x0{0,5}5d|rsqb|rbrack);)")
_INSIDE: Final = 120
"""The characters after a bracket that are searched for its end."""
_CITATION: Final = re.compile(r"[\s*_~#`.:,;/\\-]{0,8}m[\s*_~#`.:/\\°-]{0,4}\d")
_BLOCK: Final = re.compile(
    r" *(?P<title>(?:turn +memories|user +feedback|assistant +signals|current +turn|prior +turns"
    r"|turns +candidates +table)(?!\w))"
)
_BLANKS: Final = re.compile(" +")
_NAME: Final = re.compile(r"[a-z][\w -]{0,58}\w")
_LEADING: Final = re.compile(r"[\s>*•+-]*")
_KINDS: Final = "created|updated|merged|deleted|soft_deleted|restored"
_SIGN: Final = re.compile(rf"(?:(?<!\w)-|[+↑↔−~↺])(?=(?:{_KINDS}) ?:)")
_PHRASES: Final = (
    ("updates", re.compile(r"memory {1,9}updates {1,9}since {1,9}rev(?:ision)?(?: {0,9}\d{1,20})?(?: {0,9}:)?")),
    ("message", re.compile(r"current {1,9}message {0,9}:")),
    ("summary", re.compile(r"conversation {1,9}summary {0,9}:")),
    (
        "relevant",
        re.compile(r"long[ -]{1,9}term {1,9}memory {0,9}\( {0,9}most {1,9}relevant {1,9}first {0,9}\)(?: {0,9}:)?"),
    ),
)
"""Titles of ours, each with a word of it: most texts have none of these words, and are not searched."""
_SUSPECT: Final = re.compile(r"[\[&:]|updates|relevant| by ", re.IGNORECASE)
"""A sign or word that each mark of ours has in plain ASCII. Most texts have none, and are not searched further."""
_HISTORY: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?P<gap> {1,9})\d\d:\d\d:\d\d {1,9}"
    r"(?:add|update|delete|merge|link|ttl|restore|purge|consent) {1,9}by "
)


class _Folding(dict[int, str]):
    """The folded form of each character. It has exactly one character, so that offsets stay."""

    def __missing__(self, code: int) -> str:
        folded = _fold_char(chr(code))
        if len(self) < _MOST_FOLDS:
            self[code] = folded
        return folded


_FOLDING: Final = _Folding()


def fold_text(text: str) -> str:
    """Return the text in small plain letters, brackets and digits: what it looks like. Its length stays."""
    return text.lower() if text.isascii() else text.translate(_FOLDING)


def collect_tag_names(names: Iterable[str]) -> TagNames:
    """Return the names of tags: these, and the roles of a chat."""
    return ROLES | _fold_names(tuple(names))


def defuse_marks(line: str, names: TagNames | None = None, *, leading: bool = True) -> str:
    """Return a text of one line in which nothing looks like a mark of Mnema's formats.

    `names` are the tags that lines of ours may have, by default the roles of a chat. With `leading` the text stands
    where its first word in brackets could be a tag: that one is defused whatever its name. Idempotent; takes linear
    time.
    """
    if line.isascii() and not _SUSPECT.search(line):
        return line
    folded = fold_text(line)
    places = None
    if _HIDDEN in folded:
        places = [at for at, char in enumerate(folded) if char != _HIDDEN]
        folded = folded.replace(_HIDDEN, "")
    edits = [*_edit_brackets(folded, ROLES if names is None else names, leading), *_edit_words(folded, line, places)]
    return _apply_edits(line, sorted(edits), places) if edits else line


def defuse_tag(tag: str) -> str:
    """Return a name for a tag: without square brackets, and in round ones if it imitates a citation or a title."""
    folded = fold_text(tag)
    name = "".join("(" if char in "[⟨" else ")" if char in "]⟩" else own for char, own in zip(folded, tag, strict=True))
    plain = folded.replace(_HIDDEN, "")
    return f"({name})" if _CITATION.match(plain) or _BLOCK.match(plain) else name


def _fold_char(char: str) -> str:
    if (known := _FOLDED.get(char)) is not None:
        return known
    if char.isspace():
        return " "
    if unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf", "Cc"):
        return _HIDDEN
    for first in _ENCLOSED:
        if first <= ord(char) < first + _LETTERS:
            return chr(ord("a") + ord(char) - first)
    parts = unicodedata.normalize("NFKD", char)
    plain = next((part for part in parts if part.isalnum()), parts[0])
    digit = unicodedata.digit(plain, None)
    if digit is not None:
        return str(digit)
    small = plain.casefold()[:1] or plain
    return _FOLDED.get(plain, _FOLDED.get(small, small))


@lru_cache(maxsize=256)
def _fold_names(names: tuple[str, ...]) -> TagNames:
    return frozenset(squeezed for name in names if (squeezed := _squeeze_name(fold_text(name))))


def _squeeze_name(folded: str) -> str:
    return "".join(filter(str.isalnum, folded))


ROLES: Final = _fold_names(("user", "assistant", "system", "developer", "tool", "function", "memory"))
"""The tags of chat lines."""


def _edit_brackets(folded: str, names: TagNames, leading: bool) -> Iterator[Edit]:
    """Yield the edits that make the brackets of each mark round."""
    if "[" not in folded and "⟨" not in folded and "&" not in folded:
        return
    start = match.end() if leading and (match := _LEADING.match(folded)) else -1
    for opening in _OPENING.finditer(folded):
        inside = opening.end()
        limit = opening.end() + _INSIDE
        end = _ENDING.search(folded, inside, limit)
        closing = end if end and end["closing"] else None
        body = folded[inside : end.start() if end else limit]
        is_tag = closing is not None and _is_tag(folded, opening.start(), closing.end(), body, names, start)
        title = None if opening[0] == "⟨" else _BLOCK.match(body)
        if title:
            blanks = _BLANKS.finditer(folded, inside + title.start("title"), inside + title.end("title"))
            yield from ((*blank.span(), "-") for blank in blanks)
        if title or is_tag or _CITATION.match(body):
            yield opening.start(), opening.end(), "("
            if closing:
                yield closing.start(), closing.end(), ")"


def _is_tag(folded: str, start: int, end: int, body: str, names: TagNames, first: int) -> bool:
    """Tell whether a word in brackets looks like the tag of a line. An index and a link do not."""
    if folded[start] == "⟨" or folded[end : end + 1] == "(":
        return False
    if start == first and folded[end : end + 1] in ("", " ") and _NAME.fullmatch(body.strip()):
        return True
    before = folded[start - 1 : start] if start else ""
    return not (before.isalnum() or before in ("_", ")")) and _squeeze_name(body) in names


def _edit_words(folded: str, line: str, places: list[int] | None) -> Iterator[Edit]:
    """Yield the edits of signs, titles and lines of a history, which have no brackets."""
    if "ed" in folded and ":" in folded:
        for sign in _SIGN.finditer(folded):
            start = sign.start()
            listed = start > 1 and folded[start - 1] == " " and folded[start - 2] in "-*•"
            yield start - 2 if listed else start, sign.end(), " "
    for word, phrase in _PHRASES:
        for found in phrase.finditer(folded) if word in folded else ():
            start, end = found.span()
            is_escaped = folded[start - 2 : start - 1] == "\\"  # a line break of JSON stands before it
            if is_escaped or not (start and folded[start - 1].isalnum()):
                own = line[start:end] if places is None else line[places[start] : places[end - 1] + 1]
                yield start, end, f"({_hyphenate_words(own)})"
    if " by " in folded:
        for found in _HISTORY.finditer(folded):
            yield *found.span("gap"), "T"


def _hyphenate_words(phrase: str) -> str:
    plain = "".join(" " if char in "():" else own for char, own in zip(fold_text(phrase), phrase, strict=True))
    return "-".join(plain.split())


def _apply_edits(line: str, edits: list[Edit], places: list[int] | None) -> str:
    parts: list[str] = []
    at = 0
    for start, end, text in edits:
        first, last = (start, end) if places is None else (places[start], places[end - 1] + 1)
        parts += (line[at:first], text)
        at = last
    return " ".join("".join((*parts, line[at:])).split())
