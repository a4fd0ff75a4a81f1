"""The English words and phrases of the rule for closed spans, as patterns on a statement in lower case."""

import re
from typing import Final

STAYS: Final = re.compile(
    r"\b(?:still|stays?|stayed|keeps?|kept|remains?|remained|also|too(?! [a-z])|as well|besides|alongside|in addition"
    r"|both|another|second|additional|extra|next to|on top|temporar\w+|for now|until|till|while|during|paus\w+"
    r"|for the (?:moment|weekend|week|month|summer|winter|time being|season|semester|term|day|night)"
    r"|for a (?:bit|while|week|month|day|few)|this (?:weekend|semester|term|week|month|evening|morning|time)"
    r"|on exchange|holidays?|vacation|visit\w*|trip|weekend|house-?sit\w*|stand-?in|covers? for|filling in|returns?"
    r"|comes back|back in|sometimes|occasionally|mostly|partly|half|some of|one of|except|apart from|only when"
    r"|if|whether|unless|in case|think(?:s|ing)? (?:about|of)|consider\w*|plans? to|planning|going to|wants? to|would"
    r"|might|may (?:be|have|not|also|move|come|leave|get|take|become|go)|could|hopes?|dream\w*|wish\w*|wonder\w*"
    r"|maybe|perhaps|probably|rumou?rs?|heard|claims? that|says?|said|ask(?:s|ed)|read that|almost|nearly|yet"
    r"|used to|once|years ago|in (?:19|20)\d\d)\b|\?"
)
"""Words that leave an earlier statement true, or make it uncertain whether anything changed."""
CLAUSE_END: Final = re.compile(r"[,;:.!–—]\s| - | (?:because|since|so|but|as) ")
"""The end of the clause that says what has ended."""
PAST: Final = re.compile(r"\b(?:was|were|wasn't|weren't|had|did|didn't|used to)\b")
"""Verbs of the past: what was so stays so."""
STAYS_IN_RETRACTION: Final = re.compile(
    r"\b(?:if|whether|unless|might|maybe|perhaps|probably|would|rumou?rs?|heard|says?|claims? that)\b|\?"
)
_DETERMINER: Final = r"(?:(?:the|an?|my|our|his|her|their|its|this|that|all|both) ){0,3}+"
_OBJECT: Final = (
    r"(?P<thing>[\w'’&.-]+(?: (?!(?:to|for|from|at|in|on|of|after|before|because|since|and|but|so|when|last|this|by"
    r"|with|over|yesterday|today|years?|for good|completely|now|then|as|via|through|about|into|under|early|again)\b)"
    r"[\w'’&-]+){0,3})"
)
_WAS: Final = r"(?:(?:has|have|had|just|finally|already|recently|now|'ve|eventually|officially) ){0,3}+"
_WHOLLY: Final = (
    r"(?=$|[,.;:!?–—]| (?:completely|entirely|altogether|for good|forever|now|recently|already|today|yesterday|last"
    r"|this|since|because|as|and|but|so|when|years?|months?|weeks?|over|then)\b| to (?:a|an|my|our|his|her|their|the) )"
)
"""The words that may follow a thing that has ended as a whole: "stopped drinking coffee at noon" ends less."""
ENDED: Final = re.compile(
    rf"(?:^|[,;.] |\b(?:and|but|so) |\b(?:i|we|i've|we've|(?P<who>[^\W\d_]\w*|the \w+))(?: have| has)? )"
    rf"{_WAS}(?:sold|quit|gave up(?: on)?|given up(?: on)?|giving up(?: on)?|stepped (?:back|down) (?:from|as)"
    r"|resigned (?:from|as)|retired (?:from|as)|got rid of|gave away|threw out|thrown out|cancel+ed|unsubscribed from"
    r"|dropped out of|parted with|scrapped|deleted|uninstalled|ditched|abandoned|moved away from|went off|gone off"
    rf"|done with|through with|no longer (?:\w+ )?|stopped|stop) {_DETERMINER}{_OBJECT}{_WHOLLY}"
)
"""An end of a thing that the subject had or did, and the thing."""
FINISHED: Final = re.compile(rf"(?:^|\b(?:i|we|has|have|i've|just) ){_WAS}finished {_DETERMINER}{_OBJECT}")
DOING: Final = re.compile(r"\b(?:reading|watching|learning|writing|taking|doing|knitting|building|playing|studying)\b")
THING_ENDED: Final = re.compile(
    rf"^{_DETERMINER}(?P<thing>[^,.;]{{2,40}}?) {_WAS}(?:broke up|split up|disbanded|is over|are over|has ended"
    r"|ended for good|is gone|are gone|shut down|closed down|burned down|burnt down|went (?:bust|bankrupt)|folded"
    r"|is history|(?:was|were|has been|have been|got) (?:cancel+ed|scrapped|sold|abolished|dissolved|demolished"
    r"|torn down))\b"
)
"""A thing that has ended, as the subject of a statement."""
NEVER: Final = re.compile(
    r"\b(?!(?:has|have|had|ve) )[^\W\d_]+ never (?:really |actually )*(?:was |were |(?=[^\W\d_]{3,}ed )|(?<=was never )"
    rf"|(?<=were never )|(?<=is never )){_DETERMINER}(?P<thing>[^,.;:]{{2,60}})"
)
"""Something that was never so. "I have never read it" tells of what somebody has done, and corrects nothing."""
_VALUE: Final = r"(?:[^,.;:]|(?<=\d)[,.](?=\d))"
WRONG: Final = (
    re.compile(
        r"\b(?:nonsense|wrong|mistaken|incorrect|a mistake|lied|lying|confused) about (?:(?:the|my|his|her) )*+"
        rf"(?P<thing>{_VALUE}{{2,40}})"
    ),
    re.compile(
        rf"\b(?:claim|story|bit|part|note|thing|report)s? about (?P<thing>{_VALUE}{{2,40}}?) (?:was|were|is|are) "
        r"(?:false|wrong|incorrect|untrue|a mistake|nonsense|made up)\b"
    ),
    re.compile(
        rf"(?:^|[,.:;] |\bthat )(?:the |my |his |her )?(?P<thing>{_VALUE}{{1,30}}?) (?:was|is) (?:wrong|false|incorrect"
        r"|a typo|a mistake|a misprint|an error|never (?:right|true|correct)|not to blame)\b"
    ),
    re.compile(rf"\bnever said (?:that )?(?:(?:i|we|he|she) )?(?P<thing>{_VALUE}{{3,40}})"),
)
"""Statements that name an earlier value as wrong."""
NOT_VALUE: Final = re.compile(
    r"(?:, (?:and )?not|\bnot) (?!been\b)(?:an? |the |in |at |on |from )*(?P<thing>[^,.;:]{1,40})"
)
SETS_RIGHT: Final = re.compile(
    r"\b(?:no,|correction|wrong|mistake|mistaken|typo|typing error|turns out|in fact|actually|always (?:was|has)"
    r"|has always|have always|all along|from the start|proves?|misheard|misread|mixed up|it was never|never was)"
)
"""Words that say that an earlier statement was not right."""
RULE: Final = re.compile(r"\b(?:always|never)\b")
"""A rule. One of another kind ("never use emojis", "always use British spelling") ends none."""
MOVED: Final = re.compile(
    r"\b(?:relocated to|lives? in|living in|settled in|based in|home is in|moved house to"
    r"|moved from [^,.;]{1,40}? to)\b"
)
"""Another home. "Moved to" alone is none: people move to Linux, to Slack and to chapter 3."""
LIVES: Final = re.compile(
    r"\b(?:lives?|living|resides?|based|home is|(?:our|my|'s) (?:flat|house|apartment|home) is)\b[^.]{0,80}\bin\b"
)
JOINED: Final = re.compile(
    r"\b(?:started (?:a (?:new )?job )?at|works? at|working at|hired by|new job at|employed (?:at|by))\b"
)
WORKS: Final = re.compile(r"\b(?:works?|working|employed|job) (?:at|by|with|is at)\b")
"""A job. "Works for" is none: a proof works for triangles."""
NO_NEED: Final = re.compile(
    rf"\b(?:needs?|has|have|wants?|takes?|uses?|wears?|eats?|drinks?) no (?:more )?{_OBJECT}"
    r"(?= (?:at all|any ?more|now)\b)"
)
LEAD: Final = re.compile(
    r"^(?:since|after|with|from|as of|due to|because of) [^,]{1,40}?(?:, | )(?=(?:the user|i|we)\b)", re.I
)
"""A reason or a time before a statement of the user's own."""
COUNT: Final = re.compile(r"\b(?:(?P<left>\w+) (?P<kept>\w+) (?:are|is) left|down to (?P<down>\w+) (?P<thing>\w+))\b")
"""A smaller number of things."""
GRADE: Final = re.compile(r"\b(?P<unit>year|grade|class|form|semester|term) (?P<number>\d{1,3})\b")
"""A number that only grows."""
SET: Final = re.compile(
    r"\b(?:put|raised|lowered|cut|increased|reduced|brought|upped|dropped) (?:the|my|our) (?P<thing>\w+(?: \w+)?) "
    r"(?:(?:up|down|back) )?(?:from [^,]{1,20} )?to (?P<value>[^,.;]{1,30})"
)
"""Another amount that somebody gives to a thing."""
PLACED: Final = re.compile(
    r"\b(?:moved|relocated|shifted) (?:the|my|our|his|her) (?P<thing>\w+(?: \w+)?) (?:over |out |back )?(?:in|on)?to "
)
"""Another place that somebody gives to a thing."""
IS_PLACED: Final = re.compile(
    r"\b(?:is|are|hangs?|stands?|lies|lives) (?:kept |stored |parked )?(?:in|on|at|under|behind|by|near)\b"
)
SUCCEEDED: Final = re.compile(
    r"\bin (?P<place>[^\W\d_]+)'s place\b|\b(?:replaced|succeeded|took over from|takes over from) (?P<who>[^\W\d_]+)\b"
)
"""Somebody who no longer does what another one does now."""
PAIRS: Final = (
    (
        re.compile(r"\b(?:engaged|married|together|dating|girlfriend|boyfriend|partner|wife|husband|fianc\w+)\b"),
        re.compile(
            r"\b(?:split up|broke up|got divorced|are divorced|divorced|separated|called (?:the wedding|it all|it) off"
            r"|called off the (?:wedding|engagement))\b"
        ),
    ),
    (
        re.compile(r"\b(?:in (?:the |a )?hospital|hospitali[sz]ed)\b"),
        re.compile(r"\b(?:discharged|(?:home|out) (?:from|of) (?:the )?hospital|left (?:the )?hospital)\b"),
    ),
    (
        re.compile(r"\b(?:student|studies|studying|at (?:university|uni|college)|degree)\b"),
        re.compile(r"(?<!will )(?<!to )\bgraduated\b"),
    ),
    (re.compile(r"\bsmok(?:es?|er|ing)\b"), re.compile(r"\b(?:smoke-free|hasn't smoked|haven't smoked|not smoked)\b")),
    (
        re.compile(r"\bpregnant\b"),
        re.compile(r"\b(?:gave birth|(?:son|daughter|baby|twins)\b.{0,30}\b(?:was|were) born)\b"),
    ),
)
"""States that end, and how the end of each is told of the same person."""
