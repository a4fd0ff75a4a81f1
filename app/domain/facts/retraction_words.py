"""The English words by which a message takes back, corrects or doubts a stored fact, as patterns.

A message is matched with marks instead of its values and topics: `\\x01n\\x01` is the n-th stored value that it names
,
`\\x02n\\x02` the n-th mention of a topic ("my favorite color").
"""

import re
from typing import Final

from app.domain.facts.phrases import one_of, word_set

VALUE: Final = r"(?:(?:the|an?|my|that|this|all|any) )?\x01(?P<value>\d+)\x01(?:'s)?"
TOPIC: Final = r"\x02(?P<topic>\d+)\x02"
_ANY_TOPIC: Final = r"\x02\d+\x02"
_FAVORITE: Final = rf"(?:{_ANY_TOPIC}|(?:my|an?|one of my) (?:\w+ )?fav(?:ou?rites?|es?|s)?(?: one| ones)?)"
_NOT: Final = r"(?: ?n't| ?nt| not)"
_LIKE: Final = r"(?:like|love|enjoy|adore|care for|dig|fancy)"
_ADVERBS: Final = (
    r"(?: (?:really|even|actually|truly|honestly|particularly|so|quite|just|totally|completely|all that))*"
)
END: Final = (
    r"(?=[ ]*(?:$|[.,;!?)(]|[-–—]|"
    + one_of(
        r"""any ?more|any longer|now|right now|these days|nowadays|lately|as much|that much|much|at all|tbh|though
        |either|but|because|cause|cuz|since|after|so|and|as|thanks|please|lol|haha|sorry|to be honest|honestly
        |or|ever since|since|once|today|for good|again|like i used to|the way i used to|from|in|on"""
    )
    + r")(?![\w']))"
)

CUE_WORDS: Final = word_set("""
    not no never none nope dont doesnt isnt wasnt cant didnt wont was were over done off quit quitting stop
    stopped stopping hate hates hated loathe detest despise dislike sick tired bored ugh meh yuck gross
    overrated boring ruined worst awful terrible dead lost lose behind phase move moved grow grown grew outgrew
    beat beats beaten better worse sold threw thrown burned burnt ebay bay returned gave give given enough break
    cringe goodbye bye farewell rip instead rather acutally maybe perhaps might may guess suppose sure unsure
    dunno wrong misspoke mistyped typo lied lying lie kidding meant mean scream drop clear wipe scratch strike
    wait now nowadays lately less fan past once time ago fade faded wore worn tolerate nauseous nausea ill gag
    headache swore sworn retire retired era chapter closed history former old binned allergic insufferable
    tasteless bland stale childish overplayed overhyped overdone crush new found discovered throne contender
    rival edged competition challenger recently nvm edit update really said should havent hasnt couldnt wouldnt
    aint arent werent shouldnt idk certain fence torn debatable tie tied leaning warming growing nah whatever
    through finished downhill adieu sayonara ciao bin curb sigh sadly unfortunately younger teenager ended
    funeral grave buried undo died killed rotten mold expired fluke guilty hype thin loser kiddin test testing
    tricked compete competes blow blows tops tastier nicer prettier greater superior disregard ignore scrap
    discard unlearn recall without cooled cooling fallen fell
    """)
"""Words of a negation, a change or a hedge."""
CUE_STEMS: Final = tuple(
    word_set("""
    disappoint outgrow replac dethron overt chang switch swap prefer doubt mistake correct reconsider rethink
    regret fool unfollow unsubscrib cancel avoid dump ditch divorce skip trash donat betray crown eclips upstag
    usurp waver question wreck spoil poison vomit puk embarrass apologi retract unlove remov delet eras forg jok
    prank sour
    """)
)
"""The beginnings of such words."""
_CUE_PHRASES: Final = re.compile(
    r"n't|\b"
    + one_of(
        r"""any ?more|used to|fed up|ew+|last year|act?u?a?l+y|these days|years ago|second thoughts?|hard to
        |can live without|part(?:ed|ing)? ways|broke up|break ?up|put me off|turn(?:ed|s)? me off
        |let(?:s)? me down|let ?down|un\w+able|anything but|number one|top spot|runner-up|second place|makes me
        |you know what|on reflection|come to think|hmm+|second-guess\w*|toss-?up|not for me|back then
        |back in the|growing up|as a (?:kid|child|teen)|take (?:that|it|this) back|fell out|falling out
        |wear(?:s|ing) thin|nothing special|just (?:ok|okay|fine|alright)|used up|made up|moving on|move over
        |step aside|make room|watch out|second fiddle|out of the water|make it|make that"""
    )
    + r"\b",
    re.IGNORECASE,
)
"""Phrases of a negation, a change or a hedge."""
_WORD: Final = re.compile(r"\w+")


def has_cue(text: str) -> bool:
    """Tell whether a text has words of a negation, a change or a hedge: without one, it neither retracts nor doubts."""
    words = _WORD.findall(text.lower())
    if not CUE_WORDS.isdisjoint(words) or any(word.startswith(CUE_STEMS) for word in words):
        return True
    return _CUE_PHRASES.search(text) is not None


FOREIGN_NEGATION: Final = re.compile(
    r"\bn(?:e |')[^.!?\n]{1,60}\b(?:plus|pas|jamais|guère)\b"
    r"|\b(?:nicht|keine?[nrms]?|nie(?:mals)?|ya no|nunca|tampoco|non [^.!?\n]{1,40}più|mai più|não"
    r"|nunca mais|niet|geen"
    r"|nooit|inte|ikke|aldrig|nie|już nie|değil|artık|sevmiyorum|не|нет|больше|никогда|вже|więcej|že ne|nem)\b"
    r"|不再|不喜|不是|没有|沒有|ない|ません|じゃな|않|안 |못 |아니|नहीं|لا |لم |لن |ليس|لست|ไม่|không|tidak|bukan"
    r"|δεν|לא ",
    re.IGNORECASE,
)
"""Negations of other languages. They are not read; with a stored value they put it in doubt."""

HEDGE: Final = re.compile(
    r"\b"
    + one_of(
        r"""maybe|perhaps|might|may|possibly|probably|not (?:so|that|too|really )?sure|unsure|i (?:think|guess
        |suppose|feel)|kind of|kinda|sort of|sorta|sometimes|almost|dunno|don't know|if|whether|would|could|wish
        |pretend|say|doubt|nearly|a bit|a little|starting to|beginning to"""
    )
    + r"\b",
    re.IGNORECASE,
)
"""Words that make a retraction less than certain."""

ASKED_DOUBT: Final = re.compile(r"\b(?:really|even|actually|is it)\b", re.IGNORECASE)
"""Words of a question that a user asks of a fact: "Is teal really my favorite?"."""

STAYS: Final = re.compile(
    r"\b"
    + one_of(
        r"""never said|didn't say|did not say|not saying|can't get enough|cannot get enough|nothing beats
        |never gets? old|still (?:is|are )?(?:my|love|like|the|number one|on top)|not only|no idea|i haven't
        |haven't i|not that i|who said|(?:not|never) going to change|hasn't changed|haven't changed
        |not true that|no one said|nobody said|always will|don't get me wrong|no wonder|no doubt
        |without (?:a )?doubt|why not|nothing like|not kidding|no joke|not joking|nothing wrong|not wrong
        |no problem|never (?:had|tried|been|seen|heard|read) (?:a )?better"""
    )
    + r"\b|(?:n't|\b(?:not|never|dont|didnt|havent|isnt|wont|no way))(?: \w+){0,3} "
    + one_of(
        r"""over|done with|through with|finished with|sick of|tired of|bored (?:of|with)|tire of|get enough
        |fed up with|stop(?:ped|ping)?|switch\w*|chang\w+|forget|forgot\w*|gone off|go off|went off|kidding
        |joking|lying|replac\w+|delet\w+|remov\w+|eras\w+|get (?:tired|bored|sick)|quit\w*|lose|losing|lost
        |giv(?:en|ing|e) up|outgrow\w*|let go|drop|trad(?:e|ing)|abandon\w*"""
    )
    + r"\b",
    re.IGNORECASE,
)
"""Words that deny a change, or a negation that says nothing about a fact."""

_PEOPLE: Final = one_of(
    r"""sisters?|brothers?|siblings?|mom|mum|mother|dad|father|parents?|wife|husband|partner|spouse|girlfriend
    |boyfriend|gf|bf|fianc[eé]e?|sons?|daughters?|kids?|child|children|toddler|baby|twins?|gran(?:dma|dpa|ny
    |dmother|dfather)?|aunt(?:ie)?|uncle|cousins?|nieces?|nephews?|friends?|bestie|buddy|mates?|roommates?
    |flatmates?|housemates?|boss|manager|co-?workers?|colleagues?|neighbou?rs?|teachers?|students?|team|family
    |in-laws?|ex|crush|doctor|therapist|coach|guests?|fans|critics|girls?|guys?|boys?|man|woman|men|women|lady
    |character|hero(?:ine)?|class|office"""
)
OTHER_PERSON: Final = re.compile(
    rf"\b(?:my|our|his|her|their|your|the|a|an|some|one of my|half my"
    rf"|most of my) (?:[\w'-]+ ){{0,2}}{_PEOPLE}\b(?! and (?:me|i)\b)"
    r"|\b(?:he|she|they|everyone|everybody|people|somebody|someone|nobody|no one|others|most of us)\b"
    r"|\b(?:mom|mum|dad|grandma|grandpa|granny)\b",
    re.IGNORECASE,
)
OTHER_NAME: Final = re.compile(
    r"(?:(?:and|but|so|well|oh|btw|also|fyi)[, ]+)*(?P<name>[A-Z][\w-]+)(?: [A-Z][\w-]+)?"
    r" (?:doesn't|does not|isn't|is not|hates?|prefers?|can't|cannot|has|used to|no longer|stopped"
    r"|switched|went|says|said"
    r"|thinks|told|never|won't|wants|gave|got|moved|changed)\b"
)
REPORTS: Final = re.compile(
    r"\b(?:think|thinks|thought|says?|said|claims?|claimed|believes?|told|tells?|insists?)\b", re.I
)
OWN: Final = re.compile(r"\b(?:i|i'm|im|i've|ive|i'd|me|my)\b", re.IGNORECASE)

_FORGET: Final = one_of(
    r"""forget|delete|erase|remove|drop|clear|wipe|disregard|scrap|discard|unlearn|ignore|get rid of
    |stop (?:remembering|storing|keeping|saving|assuming|thinking)|(?:don't|do not|dont) (?:remember|keep|store
    |save|hold)(?: on to)?|take (?:out|off|away)|strike|scratch|cancel|undo|nix"""
)
_ABOUT: Final = (
    r"(?: "
    + one_of(
        r"""about|all about|that|what i (?:said|told you|wrote|mentioned) about|everything about|anything about
        |the (?:thing|bit|part|fact|line|entry|note)(?: i (?:said|told you|mentioned))?(?: about|that|saying
        |on)?|my (?:answer|statement)(?: about)?|whatever i (?:said|told you) about|me (?:saying|liking|loving)
        |i (?:ever )?(?:said|told you|mentioned|like|liked|love)|i (?:said|told you) i (?:like|liked|love|loved)
        |having"""
    )
    + ")?"
)

GONE_VALUE: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bdo{_NOT}{_ADVERBS} {_LIKE} {VALUE}{END}",
        rf"\bno longer{_ADVERBS} {_LIKE} {VALUE}{END}",
        rf"\b(?:gone|went|been|going|i'm|im|am){_ADVERBS} off(?: of)? {VALUE}{END}",
        rf"\b(?:i'm|im|am|i've been){_ADVERBS} (?:over|done with|through with|finished with|sick of|tired of|bored of"
        rf"|bored with|fed up with|so over|not into|no longer into|not a fan of|no fan of"
        rf"|no longer a fan of) {VALUE}{END}",
        rf"^(?:over|done with|sick of|tired of|bored of|fed up with|not into|no longer into"
        rf"|not a fan of) {VALUE}{END}",
        rf"\bca(?:n't|nnot|nt|n not){_ADVERBS} (?:stand|bear|stomach|abide|tolerate) {VALUE}{END}",
        rf"\bi{_ADVERBS} (?:hate|loathe|detest|despise|dislike) {VALUE}{END}",
        rf"\b(?:stopped|quit|gave up) (?:liking|loving|enjoying|being (?:into|a fan of)) {VALUE}{END}",
        rf"\b(?:fell|fallen) out of love with {VALUE}{END}",
        rf"\b(?:lost (?:all )?interest in|lost my taste for|outgrown|outgrew|grown out of|grew out of"
        rf"|had enough of|gone cold on|soured on) {VALUE}{END}",
        rf"\bnot an? {VALUE} (?:fan|person|lover|guy|girl)\b",
        rf"{VALUE} (?:is|was|are|were|ai|isn|aren)(?: ?n't|nt|'t| not| no longer){_ADVERBS} {_FAVORITE}",
        rf"{VALUE} no longer (?:is|are) {_FAVORITE}",
        rf"{VALUE} (?:used to be|once was|was once|was|were|had been) {_FAVORITE}",
        rf"{_ANY_TOPIC} (?:is|are)(?: ?n't|nt| not| no longer){_ADVERBS} {VALUE}{END}",
        rf"{_ANY_TOPIC} (?:used to be|was once|once was|was|were) {VALUE}{END}",
        rf"\b(?:kidding|joking|lying|lied|fibbing|wrong|mistaken) about (?:liking |loving |the )?{VALUE}{END}",
        rf"\b{_FORGET}(?: that| about)? {_ANY_TOPIC} (?:is|are|was|being) {VALUE}{END}",
        rf"\b{_FORGET}{_ABOUT} {VALUE}{END}",
    )
)
"""Forms in which a stored value goes."""

JOINED_VALUE: Final = re.compile(rf"(?:,? (?:or|and|nor)|,) {VALUE}", re.IGNORECASE)

GONE_TOPIC: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_FORGET}{_ABOUT} {TOPIC}",
        rf"\bi (?:do{_NOT}|no longer) have {TOPIC}",
        rf"\b(?:kidding|joking|lying|lied|wrong|mistaken) about {TOPIC}",
        rf"\b{_FORGET} [^.!?\x01\x02]{{0,40}}\b(?:about|regarding|with|for) {TOPIC}",
    )
)
"""Forms in which all values of a topic go."""

NEW: Final = r"(?P<new>[^.!?;\n]{1,120})"
OTHER_VALUE: Final = re.compile(
    rf"{_ANY_TOPIC} (?:is|are|was|were|used to be)(?: ?n't|nt| not| no longer)?{_ADVERBS} (?!\x01)"
    r"(?!(?:a |an |all |just |totally )*(?:joke|lie|mistake|typo|wrong|true|made|fake|untrue|false"
    r"|nonsense|changed|over)\b)\w",
    re.IGNORECASE,
)
"""A statement or denial of a value that is not stored."""
OTHER_TASK: Final = re.compile(
    r"(?:please |pls |can you |could you )*(?:change|set|replace|make|switch|swap|remove|delete|drop"
    r"|cut|move|paint|color|colour)"
    r" (?:the|this|that|these|those|all|every|its) ",
    re.IGNORECASE,
)
"""A request about something else than facts."""
_IS: Final = r"(?:it's|its|it is|that's|that is|it was|make it|make that|but|rather|i meant|i mean|say)"
SWAPPED_VALUE: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_ANY_TOPIC} (?:is|are)(?: ?n't|nt| not| no longer){_ADVERBS} {VALUE}[,;.! –—-]+(?:{_IS} )?{NEW}",
        rf"{_ANY_TOPIC} (?:used to be|was) {VALUE}[,;.! –—-]+(?:(?:but|and|so) )?(?:now|these days|today"
        rf"|nowadays)[, ]+"
        rf"(?:{_IS} )?{NEW}",
        rf"{_ANY_TOPIC} (?:used to be|was) {VALUE}[,;.! –—-]+(?:but|and|so) (?:it's|its|it is)(?: now)? {NEW}",
        rf"\b(?:said|wrote|typed|put) {VALUE},? (?:but|when)? ?(?:i |really |actually )*(?:meant?|wanted"
        rf"|should have said)"
        rf"(?: to (?:say|write|type|put))? {NEW}",
        rf"\b(?:when i (?:said|wrote)|by) {VALUE},? i (?:actually |really )?meant?(?: to (?:say|write|type))? {NEW}",
        rf"\b(?:scratch|strike|forget|drop|remove|delete) {VALUE}[,;.! –—-]+(?:and |instead )?(?:put|add"
        rf"|use|go with|{_IS}) {NEW}",
        rf"{VALUE} (?:used to be|was) {_FAVORITE},? (?:but |and |so )?(?:now |these days )?(?:it's|its"
        rf"|it is)(?: now)? {NEW}",
        rf"{VALUE} (?:used to be|was) {_FAVORITE},? (?:but |and )?now (?P<new>[^.!?;,\n]{{1,80}}?) (?:is"
        rf"|are|has taken over)\b",
        rf"{VALUE} should (?:be|have been|read) {NEW}",
        rf"{VALUE} (?:was|is) (?:a (?:typo|mistake|slip|lie|joke)|wrong|not right)[,;.! –—-]+(?:{_IS} )?{NEW}",
        rf"^{VALUE}\? (?:no|nope|sorry|wait|i meant?)[,;.! –—-]+(?:{_IS} )?{NEW}",
        rf"{_ANY_TOPIC} (?:has |just |have )*(?:changed|switched|moved|went|gone) from {VALUE} to {NEW}",
        rf"^(?:no[,.]? |sorry[,.]? |oops[,.]? |wait[,.]? |actually[,.]? )*not {VALUE}[,;.! –—-]+(?:{_IS} )?{NEW}",
        rf"\b(?:it's|its|it is|that's|it was)(?: ?n't|nt| not) {VALUE}[,;.! –—-]+(?:{_IS} )?{NEW}",
        rf"\bit is ?n't {VALUE}[,;.! –—-]+(?:{_IS} )?{NEW}",
        rf"\bit isn't {VALUE}[,;.! –—-]+(?:{_IS} )?{NEW}",
        rf"^(?:no[,.]? |sorry[,.]? |actually[,.]? )*(?:it's|its|it is|i meant"
        rf"|i said)? ?(?P<new>[^.!?;,\n]{{1,80}}), not {VALUE}{END}",
        rf"\b(?:replace|swap|change|switch|exchange|trade) {VALUE} (?:with|for|to|by|out for) {NEW}",
        rf"\b(?:i've |i have |i )?(?:switched|moved|changed|gone|went|converted) (?:over |on )?from {VALUE} to {NEW}",
        rf"^(?P<new>[^.!?;,\n]{{1,80}}?) (?:has |have |just |recently )*(?:overtaken|replaced|beaten"
        rf"|dethroned|overtook|beat"
        rf"|surpassed|knocked off|taken over from|took over from|topped|displaced) {VALUE} as {_ANY_TOPIC}",
        rf"^(?P<new>[^.!?;,\n]{{1,80}}?) (?:is|are) {_ANY_TOPIC}(?: now)?,? (?:not|instead of|rather than) {VALUE}",
    )
)
"""Forms in which a new value takes the place of a stored one."""
NAMES_TOPIC: Final = re.compile(_FAVORITE, re.IGNORECASE)

OPENER: Final = re.compile(
    r"[\s,.:;!…/–—-]*(?P<word>"
    + one_of(
        r"""hm+|well|oh|ok|okay|so|and|um+|uh|er|hang on|hold on|btw|please|yeah|haha+|lol|damn|argh|ugh|ah|hey|just
        |typo|brain fart|to be honest|tbh|let me think|sorry"""
    )
    + r")(?![\w'])",
    re.IGNORECASE,
)
CORRECTS: Final = re.compile(
    r"[\s,.:;!…/–—-]*(?P<word>"
    + one_of(
        r"""act?u?a?l+y|acutally|i lied|i was lying|correction|(?:scratch|strike|forget
        |cancel) that(?= ?(?:[,.:;!–—-]|$|it's|make))|(?:no|nope|nah|wait|rather|hold on)(?=[ ]?[,.:;!…–—-]
        |[ ](?:no|wait|sorry|actually|scratch|i meant?|make|it's)\b)|i take (?:that|it) back|on second thoughts?
        |i mean|i meant(?: to (?:say|write|type|put))?|make that|oops|whoops|i changed my mind|changed my mind
        |my mistake|my bad|let me correct that|i misspoke|i mistyped|(?:i )?should(?: have|of|'ve|a) (?:said
        |written|put)|let me (?:rephrase(?: that)?|correct (?:that|myself))|lemme correct that|(?:i )?(?:typed
        |wrote|said|got) (?:that|it|this) wrong|autocorrect\w*|meant(?: to (?:say|write|type|put))?
        |second thoughts?(?=[ ]?[:,])|change (?:that|it) to|on reflection|come to think of it|you know what
        |(?:hang on|nvm|never ?mind|edit|update|fix|typo)(?=[ ]?[,.:;!–—-])
        |now that i think (?:about|of) it|thinking about it(?: more)?|it's actually|its actually|it is actually
        |it's really|it's now|(?:set|put) it to|(?:that was|that's|i was) (?:wrong|a lie|a typo
        |a mistake)(?= ?[,.:;!–—-])"""
    )
    + r")(?![\w'])",
    re.IGNORECASE,
)
COPULA: Final = re.compile(
    r"[\s,.:;!–—-]*(?:(?:it's|its|it is|that's|that is|make it|make that|it should be|should be"
    r"|it has to be|it would be"
    r"|it'd be|it must be|let's say|i think it's|i'd say|i would say|i'd go with|i'll go with|go with|put down"
    r"|my fav(?:ou?rites?|es?|s)? (?:is|are|would be|has to be|should be)"
    r"|i meant|i mean)(?: actually"
    r"| really| now| rather)?(?![\w']) ?)?",
    re.IGNORECASE,
)
TRAILING: Final = re.compile(
    r"(?:[,.]? (?:"
    + one_of(
        r"""actually|instead|really|sorry|now|lol|haha|i think|please|thanks|of course|tbh|these days|then|that is
        |is what i meant|is my (?:new )?(?:fav(?:ou?rites?|es?|s)?|number one|top pick|#1)(?: now)?|is the one
        |is better|as \x02\d+\x02|is \x02\d+\x02(?: now)?|for \x02\d+\x02|to be exact|obviously|my bad
        |i meant"""
    )
    + r")|[!\s.])$",
    re.IGNORECASE,
)
"""One of the words, or a sign, that may end the words of a value: "blue instead, sorry!"."""
NO_NAME: Final = re.compile(
    one_of(
        r"""to|that|this|these|those|about|time|not|you|we|he|she|they|i|i'm|i'll|it|just|so|too|very|really|fine|ok
        |okay|good|great|true|wrong|right|done|nothing|what|which|who|how|when|where|why|because|if|for|of|in|on
        |at|my|your|her|his|our|their|there|here|no|need|never|let|let's|can|could|would|will|do|does|did|is|are
        |was|were|has|have|had|don't|doesn't|forget|please|thanks|thank|wait|sorry|maybe|only|still|already|more
        |less|better|worse|easy|hard|possible|impossible|important|up|both|neither|either|all|some|any
        |everything|anything|something|someone|like|also|but|and|or|than|then|given|make|give|show|tell|use
        |write|try|go|get|take|see|look|stop|start|one|two|three|hello|hi|hey|yes|yeah|nope|lol|mon(?:day)?
        |tuesday|wednesday|thursday|friday|saturday|sunday|today|tomorrow|yesterday|tonight|january|february
        |march|april|june|july|august|september|october|november|december|noon|midnight|raining|snowing
        |a (?:good|bad|great|nice|lot|bit|little|few|joke|question|mistake|typo|problem|shame|pity|different
        |long)|the (?:other|same|first|second|third|last|next|one|question|answer|point|problem|way|best|worst
        |opposite)|as|with|without|from|by|into|over|after|before|during|until|since|while"""
    )
    + r"(?![\w'])|\d",
    re.IGNORECASE,
)
"""First words of what names no value."""
AFTERTHOUGHT: Final = re.compile(
    r"\b"
    + one_of(
        r"""doubt it|did i (?:really )?say|said that\?|spoken? too soon|not any ?more|never again|no more|not now
        |not these days|changed my mind|over it|hate it|sick of it|don't (?:even )?like it|or is it
        |can't stand it|move over|moved on|not so sure|had (?:our|its|their) time|not my fav\w*"""
    )
    + r"(?![\w'])",
    re.IGNORECASE,
)
"""Words that put in doubt what another sentence of a short message names."""
LOOSE_TOPIC: Final = re.compile(
    r"\b(?:about|on) (?:the|my|that|this|which) (?P<noun>[a-z]+(?: [a-z]+)?)\b"
    r"|\b(?:the|my|that|this) (?P<thing>[a-z]+(?: [a-z]+)?) (?:thing|stuff|answer|fact|entry|question|pick|choice)\b"
    r"|\b(?:any|all|none|either|both|most) of (?:the|my|these|those) (?P<group>[a-z]+(?: [a-z]+)?)\b",
    re.IGNORECASE,
)
LATEST_DOUBTED: Final = re.compile(
    r"\b"
    + one_of(
        r"""new (?:number one|no\. ?1|#1|favou?rite|fave|fav|champion|king|queen|winner|contender|love|obsession)
        |never happened|not aged (?:well)?|forget i said|ignore that|take (?:that|it) back|changed my mind
        |not any ?more|second thoughts|i lied|just kidding|jk|was a joke|wasn't serious|spoke too soon
        |on reflection|made that up|not (?:really )?true|won me over|(?:scratch|strike) that(?=[ ]?(?:[,.!]|$))
        |never mind that|undo (?:that|it|this)|(?:any|all|none|either|both) of (?:them|those|these)"""
    )
    + r"(?![\w'])"
    + r"|^(?:(?:oh|ah|wait|hm+|actually|sorry)[,. ]+)+no\W*$",
    re.IGNORECASE,
)
"""Words that put in doubt what the message before stated, although they name nothing of it."""
MARKED_CORRECTION: Final = re.compile(
    r"\*[ ]?(?P<before>[^*]{1,80})$|(?P<after>[^*]{1,80}?)[ ]?\*$|(?P<said>[^.!?]{1,80}?),? actually[.!]*$"
)
"""A correction by its form: "*navy", "navy*", "Navy, actually."."""
POINTS: Final = re.compile(
    r"\b(?:ones?|options?|versions?|ideas?|approach|suggestions?|it|you|me|i|he|she|they|we|this|these|those)\b"
    r"|\b(?:in|on|at|from|for|with|about|of|to) (?:the|my|this|that|your|a)\b"
)
"""Words of a lower-case phrase that points at something and names no value."""
ALL_DOUBTED: Final = re.compile(
    r"\b(?:forget|delete|erase|disregard|ignore|wipe) (?:everything|all"
    r"|whatever)\b[^.!?]{0,40}\b(?:i (?:said|told|ever)"
    r"|you (?:know|have|stored|remember)|about me|favou?rites?)\b",
    re.IGNORECASE,
)
"""Words that take back everything: all facts are in doubt."""
