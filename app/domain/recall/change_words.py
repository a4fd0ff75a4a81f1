"""Word lists of the rule for replaced statements. All lower case, in the parser's form: without the -s of a verb."""

from typing import Final


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


CUES: Final = _word_set(
    "now instead anymore switched swapped changed moved move shifted postponed rescheduled extended upgraded "
    "downgraded promoted raised lowered cut increased reduced replaced relocated migrated slipped left stopped stop "
    "quit dropped sold rose fell delayed renamed again became resigned"
)
"""Words of a newer statement that say that something changed."""
CUE_PAIRS: Final = frozenset(
    {
        ("no", "longer"),
        ("these", "day"),
        ("took", "over"),
        ("taken", "over"),
        ("handed", "over"),
        ("put", "off"),
        ("given", "up"),
        ("gave", "up"),
        ("as", "of"),
        ("brought", "forward"),
    }
)
PAIR_WORDS: Final = frozenset(word for pair in CUE_PAIRS for word in pair) - {"of"}
ADDITIONS: Final = _word_set("also too additionally besides another well both plus")
"""Words of a newer statement that adds to an older one."""
HEDGES: Final = _word_set(
    "might maybe perhaps could would considering consider thinking wondering hope whether if almost nearly "
    "suggested proposed"
)
TAKING: Final = frozenset({("took", "over"), ("taken", "over"), ("handed", "over"), ("hand", "over")})
"""Pairs of words for a thing that passes from one person to another."""
DUTIES: Final = _word_set("responsible run manage lead own maintain organise organize look charge belong supervise")
"""Words that tell who does a duty; one person does it at a time."""

COPULAS: Final = _word_set("be was were become became")
AUXILIARIES: Final = _word_set("will would have had has must should can could do did been being shall")
ADVERBS: Final = _word_set("now currently also still usually always often mostly already just again never")
IRREGULAR: Final = _word_set(
    "ran was were had lent did made got went won lost met bought sold took gave came saw wrote sent led kept told "
    "found held left rose fell put ate drank felt sat spoke swam built paid broke burst began said"
)
"""Past forms without -ed."""
PARTICIPLES: Final = _word_set("held written built run sent led made kept sold given paid set done driven hosted")
HOLDING: Final = _word_set("live work study report belong cost weigh attend stay")
"""Verbs with one value at a time: where one lives, what something costs."""
BARE: Final = _word_set("cost weigh attend study")
"""Verbs of HOLDING whose value follows without a preposition."""
ROUTINES: Final = _word_set("wake get go rise")
"""Verbs whose time of the day is one value."""
LIMITING: Final = _word_set("begin start end leave close open last arrive expire")
"""Verbs whose time or date is one value of a thing."""
CHOOSING: Final = _word_set("use prefer take want wear drink eat drive favour favor")
"""Verbs with one value for a purpose or of a kind: a seat, a typeface for slides."""
SCHEDULED: Final = _word_set("planned due scheduled set launch deadline fixed booked")
STATUSES: Final = _word_set(
    "open closed paid unpaid pending done finished paused active inactive single married engaged divorced separated "
    "pregnant available unavailable broken fixed cancelled canceled approved rejected won lost delivered shipped draft "
    "published live online offline hold late blocked unblocked running stopped enabled disabled progress ready empty "
    "full retired employed unemployed vacant rented overdue resolved solved accepted declined confirmed"
)
MANY: Final = _word_set(
    "friend brother sister sibling son daughter child kid cousin aunt uncle niece nephew colleague neighbour neighbor "
    "cat dog pet horse hobby hobbies book film song goal idea task problem question one some many other part member"
)
"""Nouns of which somebody has several: "a friend is" tells no attribute."""
RESIDENCE: Final = _word_set("live moved relocated address flat home apartment house residence")
WORK: Final = _word_set("work job employed employer left joined hired teach teaching study studying retired resigned")
SAME_ATTRIBUTE: Final = (
    RESIDENCE,
    WORK,
    _word_set("cost price rent fee rate pay raised lowered"),
    _word_set("planned launch launched moved opening open due scheduled start slipped postponed rescheduled delayed"),
    _word_set("smoke smoking cigarette"),
    _word_set("single married engaged divorced"),
)
"""Sets of words that speak of one attribute."""

OTHER_VERBS: Final = _word_set(
    "like need plan require avoid sign speak love hope go want report stay share serve keep pay support contain meet "
    "teach listen drive shave enjoy collect swear last"
)
"""More verbs, which start what is said of a subject."""
OPENINGS: Final = _word_set("change as since from after because on in at until due with by")
"""Words that start a clause before the subject."""
TIMELESS: Final = _word_set("now currently new still again anymore instead day these already current")
"""Words that may be left out when two statements are compared word by word."""
EXCHANGES: Final = _word_set("instead switched swapped replaced")
"""Words of change that tell of an exchange even if no number changes."""
LEAVING: Final = _word_set("from left dropped sold than no not stopped quit")
"""Words before the value that no longer holds."""
POINTS: Final = _word_set("then last this early late about around birth childhood summer")
"""Words after "since" that name a time and no reason."""
