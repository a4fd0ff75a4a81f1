"""The English words of notes that a user lays down, as patterns: requests to remember, orders, dates of the family."""

import re
from typing import Final

from app.domain.reflection import disclosure_words as words_of

_OPENS: Final = (
    r"(?:(?:oh|ok|okay|so|and|also|but|hey|hi|thanks|thank you|btw|by the way|please|pls|plz|kindly|well"
    r"|great|cool|sure|yes"
    r"|no|sorry|just|do|actually|one more thing|quick note)[,!.:]? ){0,5}"
)
_ASKS: Final = (
    r"(?:(?:can|could|would|will) you (?:please |pls |also )?|(?:i|i'd) (?:want|need|like|would like) you to "
    r"|(?:make sure|be sure|try) (?:you |to )|you (?:should|must|need to|have to) )?(?:always )?"
)
_KEEPS: Final = (
    r"(?:(?P<bare>rem?e?m?b?e?r|don't forget|do not forget|dont forget|never forget)"
    r"|(?:keep|bear) (?:this |it |that )?in mind|(?:make|take) (?:a )?(?:mental )?note|note to (?:self|myself)"
    r"|note(?: this)? (?:for later|down)|(?:write|jot|note|put) (?:this|that|it) down|(?:save|store"
    r"|memori[sz]e|log|keep) this"
    r"|add this to (?:your |the )?memory|for (?:future|later|your) (?:reference|record|records|use)|for next time"
    r"|fyi,? for (?:later|next time|the future)|reminder to (?:self|myself)|don't let me forget"
    r"|please note|pls note|memo(?: to self)?"
    r"|keep (?:a )?note|commit (?:this |it )?to memory|file this away|stash this"
    r"|remember (?:this )?for (?:later|next time)"
    r"|(?:just )?so you (?:remember|know for (?:later|next time))|(?:just )?for future ref|to remember"
    r"|thing to remember|mental note|(?:save|store|log|record|memori[sz]e|note|(?:write|jot"
    r"|note) down)(?: the fact)?(?= that )"
    r"|(?:add|save|put|commit|store)(?: this| it| that)? (?:to|in|into) (?:your |the |my )?(?:memory|notes))"
)
REMEMBER: Final = re.compile(
    rf"{_OPENS}(?P<asks>{_ASKS}){_KEEPS}(?:,? (?:please|pls|for me|for later|for next time|for the future))?"
    r"(?P<joint> that|[:,]| [-–—]|(?= ))\s?(?P<what>\S.*)$",
    re.IGNORECASE,
)
OWN_START: Final = re.compile(r"(?:i|i'm|im|i've|my|our|we|we're|we've)\b", re.IGNORECASE)
STATES: Final = re.compile(
    r"\b(?:is|are|has|have|needs?|hates?|likes?|loves?|goes|comes|closes|opens|costs|expires|ends|starts"
    r"|lives|works|owes|takes"
    r"|prefers?|wears?|drives|can't|doesn't|isn't)\b|\w's \w|\d",
    re.IGNORECASE,
)
"""Words of a statement."""
NO_CONTENT: Final = re.compile(
    r"(?:to|when|how|what|who|why|where|which|whether|if|me|you|us|them|him|her|it|the time|those|about"
    r"|this|film|movie|song|guy)\b",
    re.IGNORECASE,
)
OF_CONVERSATION: Final = re.compile(
    rf"\b(?:the|this|that|these|those|your|its) (?:{'|'.join(sorted(words_of.CONVERSATION_NOUNS))})\b", re.IGNORECASE
)
TRAILING: Final = re.compile(
    r",? (?:for next time|for later|for the future|for future reference|please|pls|thanks|thank you|ok|okay|ever)$",
    re.IGNORECASE,
)

_ORDERS: Final = (
    "suggest|recommend|propose|offer|mention|bring up|call|text|message|phone|ping|contact|email|e-mail"
    "|notify|wake|remind|answer"
    "|reply|respond|address|refer|swear|apologi[sz]e|book|schedule|order|reserve|send|share|tell|ask"
    "|give|show|include|quote"
    "|write|speak|talk|explain|translate|assume|plan|use|add|put|list|cite|convert|round|format|sign"
    "|start|end|begin|keep|make"
    "|check|confirm|warn|feed|serve|cook|buy|spend|pay|post|publish|delete|charge|invite|seat|sugarcoat"
    "|lecture|compare|repeat"
    "|spoil|treat|touch|disturb|bother|correct|shorten|abbreviate|capitali[sz]e|cut|rush|nag|pressure"
    "|push|stick|leave out|skip|limit|interrupt|joke|flatter|praise|pick|choose|prefer|label|link|spell"
    "|double-check|verify|hide|reveal|disclose|prioriti[sz]e"
)
_GERUNDS: Final = (
    "suggesting|recommending|offering|mentioning|bringing up|calling|texting|messaging|phoning|pinging"
    "|emailing|notifying|reminding"
    "|answering|replying|addressing|swearing|apologi[sz]ing|booking|scheduling|ordering|sending|sharing"
    "|telling|asking|giving"
    "|showing|including|writing|explaining|assuming|using|adding|putting|ending|starting|making"
    "|sugarcoating|lecturing|joking"
    "|repeating|flattering"
)
_STANDING: Final = (
    r"(?:from (?:now|here|today|this point) on(?:wards?)?|going forward|moving forward|in (?:the )?future"
    r"|henceforth|as of (?:now|today))"
)
_ALWAYS: Final = (
    r"always|by default|every time|each time|at all times|whenever possible|without exception|from now on"
    r"|going forward|in (?:the )?future"
    r"|in (?:all|every)(?: of)?(?: your)? (?:answers?|replies|reply|messages?|responses?|emails?)"
    r"|when(?:ever)? (?:you|talking|replying"
    r"|answering|writing) (?:\w+ ){0,3}(?:to |with |for )?me|unless i (?:say|ask|tell)|as a rule"
    r"|in general|not the other way"
)
_NO_VERB: Final = (
    r"(?:\w+(?:ed|ing)|been|seen|had|was|got|knew|thought|an?|the|my|again|really|so|too|nice|great|happy"
    r"|good|fun|hard|up|in|on|at"
    r"|heard|met|felt|found|made|mind|say|know|have|be|is|are|were|gonna|going|wanted|fails?|works?"
    r"|makes?|gets?|thought|ever|once)\b"
)
ORDER: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_OPENS}(?P<order>(?:never|always)(?: ever)? (?:{_ORDERS}) \S.*)$",
        rf"{_OPENS}(?P<order>(?:don't|do not|dont)(?: ever)? (?:{_ORDERS}) (?P<object>\S.*))$",
        rf"{_OPENS}(?P<order>(?:stop|quit|avoid) (?:{_GERUNDS}) (?P<object>\S.*))$",
        rf"{_OPENS}{_STANDING},? (?:please |pls |i'd like you to |i want you to )?"
        rf"(?P<order>(?:(?:always|never|only|don't|do not|stop|no|just) )?(?:{_ORDERS}|{_GERUNDS}) \S.*)$",
        rf"{_OPENS}{_STANDING},? (?P<order>\S.{{2,120}}?),? (?:please|pls)$",
        rf"{_OPENS}(?:i'd like|i want|i need|i would like|i'd prefer|i'd love) (?:you to|if you) "
        rf"(?P<order>(?:always|never|only|please always) (?:{_ORDERS}) \S.*)$",
        rf"{_OPENS}(?P<order>(?:whenever|every time|each time|any time|anytime) (?:i|we|you) [^,]{{3,100}}, "
        rf"(?:please |always |never |just )*(?:{_ORDERS}) \S.*)$",
        rf"{_OPENS}(?P<order>only (?:suggest|recommend|show|offer|give|book|send|use|propose|call|text"
        rf"|contact) (?P<object>\S.*))$",
        rf"{_OPENS}(?P<order>(?:never|always|under no circumstances|at no point)(?: ever)? (?!{_NO_VERB})[a-z]+ "
        r"(?=(?:.* )?(?:me|my|i|i'm|us|our|please|you|your|myself)\b)\S.*)$",
        rf"{_OPENS}(?:you (?:should|must|need to|have to|may|can)|make sure (?:that )?you|be sure to"
        rf"|make sure to|remember to"
        rf"|make it a rule to|i'd ask you to|try to) (?P<order>(?:always|never|only) (?!{_NO_VERB})[a-z]+ \S.*)$",
        rf"{_OPENS}(?P<order>(?:{_ORDERS}|be|speak|do|run|get|set|draft|summari[sz]e|translate|default|address"
        rf"|refer) .*\b(?:{_ALWAYS})\b.*)$",
        rf"{_OPENS}(?P<order>(?:(?:you can |you may "
        rf"|just )?call me (?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*)?(?:, not \S+)?))$",
        rf"{_OPENS}(?P<order>.{{3,100}}?(?:,? (?:so|and|therefore)|;) (?:please )?(?:never|always"
        rf"|don't(?: ever)?|do not(?: ever)?"
        rf"|only) (?:{_ORDERS}) \S.*)$",
        rf"{_OPENS}(?P<order>(?:if|for|when|in|on) [^,]{{3,80}}, (?:please )?(?:always|never|only"
        rf"|don't ever) (?:{_ORDERS}) \S.*)$",
        rf"{_OPENS}(?P<order>be (?:more |very |as )?(?:brief|concise|blunt|honest|direct|polite|formal"
        rf"|informal|casual|gentle|patient"
        rf"|kind|short|specific|strict|frank) (?:with me|in (?:your|all)|when|as possible).*)$",
        rf"{_OPENS}(?P<order>(?:skip|drop|cut|leave out|ditch|spare me|no need for) (?:out )?(?:the |all "
        rf"|your |any )?(?:small talk"
        rf"|pleasantries|intros?|introductions?|disclaimers?|preambles?|caveats|fluff|filler|sugarcoating"
        rf"|lectures?|jokes|emojis?"
        rf"|jargon|apologies|praise|compliments)\b.*)$",
        rf"{_OPENS}(?P<order>treat (?!this|that|it\b)\S.* as (?:confidential|private|secret|off the record).*)$",
        rf"{_OPENS}(?P<order>keep (?!this|that|it\b)\S.* (?:private|secret|confidential|between us|to yourself))$",
        rf"{_OPENS}(?P<order>(?:ask|check with|consult|confirm with|warn|tell|remind) me (?:first )?before \S.*)$",
        rf"{_OPENS}(?P<order>(?:get my (?:ok|okay|approval|permission)|wait for my (?:ok|okay|approval"
        rf"|permission)) \S.*)$",
        rf"{_OPENS}(?P<order>use (?:the |a )?(?:metric|imperial|celsius|fahrenheit|24-?hour|12-?hour"
        rf"|british|american|formal|informal"
        rf"|gender-neutral|plain|simple)\b(?: \S+){{0,5}})$",
        rf"{_OPENS}(?P<order>(?:address me as|refer to me as|treat me (?:like|as)|(?:speak|talk|write"
        rf"|reply) to me (?:in|like|as)"
        r"|contact me|reach me|only contact me) \S.*)$",
        rf"{_OPENS}(?P<order>no (?:more )?(?P<object>[a-z -]{{3,60}}?),? (?:please|pls|ever|ever again|with me"
        rf"|from you|in (?:your|my|any|all)"
        r" .*|when .*|unless .*))$",
        rf"{_OPENS}(?P<order>i (?:never|don't ever|do not ever) want (?:you to|any|to (?:see|hear|get|read)) \S.*)$",
        rf"{_OPENS}(?P<order>i (?:don't|do not) want (?:you to|any|to (?:see|hear|get|read)) .*\b(?:ever|again"
        rf"|any ?more|at all|{_ALWAYS})\b.*)$",
        rf"{_OPENS}(?P<order>when i (?:ask|say|send|paste|share|mention|talk|write|tell|give|want|need"
        rf"|upload) [^,]{{3,100}}, "
        rf"(?:please |always |never |just |only |don't |do not )*(?:{_ORDERS}|summari[sz]e|translate|run|do) \S.*)$",
        rf"{_OPENS}(?P<order>unless i (?:say|ask|tell) [^,]{{3,60}}, (?:please |always |never "
        rf"|just )*(?:{_ORDERS}|be) \S.*)$",
        rf"{_OPENS}(?P<order>keep (?:your |all |my )?(?:answers|replies|responses|messages|explanations"
        rf"|summaries) \S.*)$",
    )
)
MOMENT: Final = re.compile(
    r"\b(?:this|these|here|yet|now|above|below|the (?:first|second|third|last|next|previous|same"
    r"|following|current)|just this once"
    r"|for now|today|tonight|again in this)\b",
    re.IGNORECASE,
)
"""Words of the task at hand."""
USED: Final = re.compile(
    r"(?:never |always |don't |do not |dont |stop |quit |avoid |ever )+(?:use|using|add|adding|put"
    r"|putting|include|including|make|making"
    r"|start|starting|end|ending|write|writing|list|check|delete|convert|round|format|begin|pick|choose"
    r"|compare)\b(?P<object>.*)",
    re.IGNORECASE,
)
MANNER: Final = re.compile(
    r"\b(?:emojis?|jargon|slang|bullets?|bullet points|exclamation|abbreviations?|acronyms?|markdown"
    r"|tables|caps|capitals|headings?"
    r"|honorifics?|units?|metric|imperial|celsius|fahrenheit|my (?:full |first |last |real )?name|with me"
    r"|to me|for me|me|titles?"
    r"|semicolons?|em.?dash(?:es)?|passive|filler|disclaimers?|apolog\w+|compliments?|small talk|latin"
    r"|british|american|english"
    r"|spelling|sarcasm|jokes|puns|metaphors|footnotes|sources|links|dates?|times?|currency|euros?"
    r"|dollars?|prices?)\b",
    re.IGNORECASE,
)
STANDS: Final = re.compile(rf"\b(?:{_ALWAYS})\b", re.IGNORECASE)
NO_ORDER: Final = re.compile(
    r"\b(?:mind|worry|say never|pleasure|problems?|worries|tell me (?:you|that|it|he|she|they|i))\b"
    r"|^(?:write|draft|create|make|give me|generate|translate|summari[sz]e|show me|find) (?:me )?(?:an?"
    r"|the|this|some|\d+) ",
    re.IGNORECASE,
)

_MONTHS: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)"
)
_DATE_TEXT: Final = (
    rf"(?:\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTHS}\b|{_MONTHS} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?\b"
    rf"|(?:in|by|until|this|next) "
    rf"(?:early |late |mid-?)?{_MONTHS}\b|\d{{4}}-\d\d-\d\d|\b\d{{1,2}}[/.]\d{{1,2}}(?:[/.]\d{{2,4}})?\b"
    rf"|the \d{{1,2}}(?:st|nd|rd|th)\b"
    rf"|\b(?:on|at|before|after|by|over) (?:christmas(?: eve| day)?|easter|thanksgiving"
    rf"|new year'?s(?: eve| day)?|halloween"
    rf"|valentine'?s day|boxing day)\b)(?:,? (?:19|20)\d\d\b)?"
)
DATE: Final = re.compile(_DATE_TEXT, re.IGNORECASE)
_KIN: Final = (
    r"(?:(?:older|younger|little|big|eldest|oldest|youngest|twin|step|half|baby|late|ex)[- ])?(?:step"
    r"|grand|god|half-?)?"
    r"(?:sisters?|brothers?|sons?|daughters?|kids?|child|children|wife|husband|partner|spouse|fianc[eé]e?"
    r"|girlfriend|boyfriend|gf"
    r"|bf|mother|father|mum|mom|mommy|mummy|dad|daddy|parents?|grandma|grandpa|grandmother|grandfather"
    r"|granny|grandad|granddad"
    r"|nana|nan|gran|papa|mama|auntie?s?|aunts?|uncles?|cousins?|nieces?|nephews?|twins|baby|family|hubby"
    r"|wifey|kiddo|pops|in-laws|mother-in-law"
    r"|father-in-law|sister-in-law|brother-in-law|goddaughter|godson|anniversary|wedding|firstborn"
    r"|newborn|toddler|best friend|due date|engagement|honeymoon|housewarming)"
)
FAMILY: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_OPENS}(?P<said>(?:my|our) {_KIN}\b.*)$",
        rf"{_OPENS}(?P<said>(?:mom|mum|mama|dad|papa|grandma|grandpa|granny|nana|gran|grandad|granddad"
        rf"|auntie? \w+|uncle \w+)\b.*)$",
        rf"{_OPENS}(?P<said>the (?:twins|kids|children|baby|boys|girls|grandkids|grandchildren|wedding"
        rf"|christening|baptism"
        rf"|funeral|baby shower|family reunion|in-laws) .*)$",
        rf"{_OPENS}(?P<said>(?:we're|we are|i'm|i am|we|i) (?:\w+ ){{1,4}}(?:my |our |up |with |for )*{_KIN}\b.*)$",
        rf"(?P<said>(?i:on|in|next|this)? ?{_DATE_TEXT},? (?:is |we're |we are |i'm |it's |we "
        rf"|i )?(?:\w+ ){{0,4}}(?:my |our )?{_KIN}\b.*)$",
        r"(?P<said>(?-i:[A-Z])\w+(?: and (?-i:[A-Z])\w+)?(?:'s|s') (?:\w+ ){0,2}(?:first day|party|exam"
        r"|concert|match|tournament"
        r"|check-?up|appointment|vaccination|birthday|graduation|recital|communion|christening"
        r"|baptism|wedding|surgery"
        r"|bar mitzvah|bat mitzvah|due date|school play)\b.*)$",
        r"(?P<said>(?:it's |its |it is )?(?:little |baby )(?-i:[A-Z])\w+(?:'s)? .*)$",
        rf"(?P<said>(?:it's|its|it is) (?:my |our )?(?:{_KIN}|[^\W\d_][\w-]+)'s .*\b(?:birthday|communion"
        rf"|christening|baptism|graduation"
        r"|wedding|recital|surgery|operation|confirmation|bar mitzvah|bat mitzvah|funeral|anniversary"
        r"|first day)\b.*)$",
    )
)
EVENT: Final = re.compile(
    r"\b(?:is|are|was|were|'s|turns?|turned|starts?|started|begins?|gets?|getting|got|has|have|had|moves?"
    r"|moving|moved|retires?|retired"
    r"|graduates?|graduated|marri\w+|leaves?|leaving|arrives?|arriving|comes?|coming|visits?|visiting"
    r"|flies|flying|due|born|birthday"
    r"|picking|celebrat\w+|finish\w*|returns?|returning|goes|going|died|passed|taking|takes"
    r"|expect\w*|surgery|on|\w+(?:s|ed|ing))\b",
    re.IGNORECASE,
)
ASIDE: Final = re.compile(r"(?:, |; | [-–—] |! |\? | and (?=i |we |he |she |they )| so | but )", re.IGNORECASE)
ASKING_TAIL: Final = re.compile(
    r"[,;] ?(?:(?:so|and|but) )?(?:any|what|how|can|could|should|would|do|does|where|which|who|is|are|got"
    r"|ideas|suggestions|help)\b[^,;]*\?$",
    re.IGNORECASE,
)
FICTION: Final = re.compile(
    r"\b(?:in|for) (?:my|the|this|a|our) (?:\w+ )?(?:story|novel|book|game|dream|play|script|poem)\b", re.I
)
UNREAL: Final = re.compile(
    r"\b(?:if|maybe|perhaps|suppose|imagine|pretend|would|might|hopefully|i wish|used to)\b", re.IGNORECASE
)
