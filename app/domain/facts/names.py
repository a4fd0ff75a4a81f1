"""Names that have a comma, an "and" or a quotation around them: no separator stands inside."""

import re
from typing import Final

from app.domain.facts.phrases import one_of

_KEPT_BLANK: Final = "\ue000"
"""The blank after a comma or an "and" inside a name, while values are separated."""
_MAX_TEXT: Final = 2000
"""The characters in which names are looked for. More than the values of a statement need."""
_SIGNS: Final = (",", ";", "&", '"', "+", " and ", " n ", " AND ", " And ", "'n'")
"""The separators of values, without which there is nothing to hide."""
_AND: Final = r"(?:and|&|n|'n'|\+)"
_COMMA_NAMES: Final = (
    rf"earth, wind,? {_AND} fire|crosby, stills,? (?:{_AND} nash|nash,? {_AND} young)|emerson, lake,? {_AND} palmer"
    rf"|peter, paul,? {_AND} mary|blood, sweat,? {_AND} tears|tyler, the creator|godspeed you!,? black emperor"
    rf"|lock, stock,? {_AND} two smoking barrels|eat,? pray,? love|crazy, stupid, love|me, myself,? {_AND} irene"
    rf"|planes, trains,? {_AND} automobiles|sex, lies,? {_AND} videotape|the good, the bad,? {_AND} the ugly"
    rf"|crouching tiger, hidden dragon|o brother, where art thou|monsters, inc|good morning, vietnam|i, (?:robot|tonya)"
    rf"|tinker,? tailor,? soldier,? spy|guns, germs,? {_AND} steel|salt,? fat,? acid,? heat"
    rf"|the lion, the witch,? {_AND} the wardrobe|oh, the places you'll go"
    rf"|bell, book,? {_AND} candle|yes, minister|yes, prime minister|murder, she wrote"
    rf"|dude, where's my car|girl, interrupted|goodbye, lenin|good bye, lenin|hello, dolly|oh, hello|love, actually"
    rf"|love, death {_AND} robots|love, simon|goodbye, columbus|farewell, my lovely|absalom, absalom|run, lola, run"
    rf"|yours, mine {_AND} ours|bed, bath {_AND} beyond|honey, i shrunk the kids|help, i'm a fish"
    rf"|man, i feel like a woman|sugar, sugar|mamma mia, here we go again"
    rf"|rock,? paper,? scissors|hall {_AND} oates|simon {_AND} garfunkel|florence {_AND} the machine"
    rf"|mumford {_AND} sons|belle {_AND} sebastian|tegan {_AND} sara|iron {_AND} wine|of monsters {_AND} men"
    rf"|guns {_AND} roses|salt {_AND} pepa|rhythm {_AND} blues|sonny {_AND} cher|ike {_AND} tina(?: turner)?"
    rf"|echo {_AND} the bunnymen|bob marley {_AND} the wailers|tom petty {_AND} the heartbreakers|kool {_AND} the gang"
    rf"|huey lewis {_AND} the news|nick cave {_AND} the bad seeds|joan jett {_AND} the blackhearts|brooks {_AND} dunn"
    rf"|pride {_AND} prejudice|sense {_AND} sensibility|war {_AND} peace|crime {_AND} punishment|romeo {_AND} juliet"
    rf"|of mice {_AND} men|beauty {_AND} the beast|lady {_AND} the tramp|tom {_AND} jerry|rick {_AND} morty"
    rf"|lilo {_AND} stitch|thelma {_AND} louise|bonnie {_AND} clyde|butch cassidy {_AND} the sundance kid"
    rf"|dungeons {_AND} dragons|snakes {_AND} ladders|law {_AND} order|will {_AND} grace|parks {_AND} rec(?:reation)?"
    rf"|starsky {_AND} hutch|cagney {_AND} lacey|turner {_AND} hooch|harold {_AND} maude|harold {_AND} kumar"
    rf"|angels {_AND} demons|fear {_AND} loathing|sons {_AND} lovers"
    rf"|fast {_AND} (?:the )?furious|good {_AND} plenty|mike {_AND} ike|m {_AND} ms"
    rf"|ben {_AND} jerry'?s|dolce {_AND} gabbana|marks {_AND} spencer|trinidad {_AND} tobago|antigua {_AND} barbuda"
    rf"|bosnia {_AND} herzegovina|brighton {_AND} hove"
)
_NAME: Final = re.compile(rf"(?<!\w)(?:{_COMMA_NAMES})(?!\w)", re.IGNORECASE)
"""Well-known names in which the separators of an enumeration stand."""
_PLACE: Final = re.compile(
    r"(?<=[a-z]), "
    + one_of(
        """D\\.? ?C\\.?|A[KLRZ]|C[AOT]|DE|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]|T[NX]
        |UT|V[AT]|W[AIVY]"""
    )
    + r"(?![\w'])"
)
"""The state after a city's name: "Portland, OR"."""
_QUOTED: Final = re.compile(r"\"[^\"]{1,200}\"")
_INSIDE: Final = re.compile(rf"(?<=[,;]) | (?={_AND} )|(?<= and) |(?<= &) |(?<= n) |(?<= \+) ", re.IGNORECASE)


def hide_separators(text: str) -> str:
    """Return a text in which no separator of values stands inside a known name or a quotation. Linear."""
    if not any(sign in text for sign in _SIGNS):
        return text
    head = text[:_MAX_TEXT]
    tail = text[_MAX_TEXT:]
    for pattern in (_NAME, _PLACE, _QUOTED):
        head = pattern.sub(lambda match: _INSIDE.sub(_KEPT_BLANK, match[0]), head)
    return head + tail


def show_separators(text: str) -> str:
    """Return a text as it was before `hide_separators`."""
    return text.replace(_KEPT_BLANK, " ")
