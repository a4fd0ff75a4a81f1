"""Word lists of the deterministic same-fact rule. All lower case; verbs without the third-person -s.

A list never makes two texts the same fact. It only says how careful the rule must be with a word.
"""

from typing import Final


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Articles are dropped, but "a few" is not "few".
DEFINITE: Final = "the"
INDEFINITE: Final = _word_set("a an")
COUNTED: Final = _word_set("few little bit lot")

# The user, in the first and in the third person.
USER: Final = _word_set("i me myself user")
USERS: Final = _word_set("my mine user's users'")

PRONOUNS: Final = _word_set(
    "he him his himself she her hers herself they them their theirs themselves it its itself we us our ours ourselves "
    "you your yours yourself somebody someone anybody anyone everybody everyone"
)

BE: Final = _word_set("is are am")
# Words for a state of the user: "User is allergic to nuts" and "Allergic to nuts" agree.
STATES: Final = _word_set(
    "allergic intolerant sensitive afraid vegan vegetarian fond interested married single divorced pregnant"
)

# Grammatical words that are no content but must agree.
FUNCTION: Final = _word_set(
    "have do of as that this these those which who whom whose what where how there here so then too such own via per "
    "just same other"
)

PREPOSITIONS: Final = _word_set(
    "in on at for with about during near under above below behind around through across against off up down out "
    "within beside besides along among inside outside onto upon"
)
# Prepositions of a phrase that may be at either end of a sentence, or be left out.
ADJUNCTS: Final = _word_set("in on at during with near")

DIRECTIONS: Final = _word_set(
    "over than instead rather versus vs from to into before after between by toward towards unlike compared more less "
    "better worse"
)

NEGATION_ENDS: Final = _word_set("anymore longer")
DENIALS: Final = NEGATION_ENDS | _word_set("not no never nobody nothing nowhere none without neither nor cannot")
ENGLISH_NEGATIONS: Final = DENIALS | _word_set(
    "hardly barely scarcely seldom except excluding "
    "stopped stop quit former formerly ex used unable non un lack lacking minus zero false fake "
    "declined cancelled canceled refuse refused reject rejected deny denied fail failed failing ended cease ceased "
    "dropped abandoned removed revoked finished retired divorced separated died dead late"
)
NEGATIONS: Final = ENGLISH_NEGATIONS | _word_set(
    # other languages, so that a foreign negation at the end of a text never counts as a detail
    "nicht kein keine keinen nie niemals nein ohne ne pas jamais sans sin nunca jamás ningún ninguna não nao nem sem "
    "mai senza niet geen nooit zonder inte ingen ikke aldri utan uten nie bez нет не никогда без όχι δεν ليس لا לא 不 "
    "没 没有"
)

# Words that change nothing about what a text says, beside a negation or without one.
SAY_LITTLE: Final = _word_set("do did does can could will would any anything anyone ever at all still already yet it")

CONTRACTIONS: Final = {
    "can't": "can not",
    "cant": "can not",
    "cannot": "can not",
    "won't": "will not",
    "wont": "will not",
    "shan't": "shall not",
    "ain't": "is not",
    "don't": "do not",
    "dont": "do not",
    "doesnt": "do not",
    "didnt": "did not",
    "isnt": "is not",
    "arent": "are not",
    "wasnt": "was not",
    "hasnt": "has not",
    "havent": "have not",
    "i'm": "i is",
    "im": "i is",
    "let's": "let us",
}
# Words whose 's is "is"; after any other word it is a possessive.
IS_AFTER: Final = _word_set("it he she that what there here who where how")

POSITIVE: Final = _word_set(
    "like love enjoy adore appreciate fond fan want welcome accept happy good great interested passionate keen "
    "support trust admire"
)

# Opposed, exclusive or comparing words: the rule may not narrow or widen the words after them.
GUARDED: Final = _word_set(
    "prefer preferred preference favor favour favored favoured favorite favourite hate dislike detest despise loathe "
    "disgust avoid allergic allergy allergies intolerant intolerance sensitive averse aversion afraid fear phobia ban "
    "banned forbid forbidden refrain abstain skip exclude disagree oppose opposed distrust reject resent regret bored "
    "hesitant reluctant unwilling unhappy angry annoyed upset sick tired sad bad terrible awful poor worried anxious "
    "wrong cut limit limited reduce reducing minimal restrict restricted must should shall may might could would can "
    "will want wish hope plan intend consider considering think believe claim suspect doubt guess assume pretend try "
    "need require let make allow allowed if unless when whenever while until till because although though but however "
    "or either whether since despite else otherwise yet still already almost nearly mostly partly instead was were "
    "been be being had did gone went became becoming turned left started start began begin continue resumed resume "
    "learning trying planning hoping considering moving looking searching starting stopping quitting law training "
    "theory waiting name opposite substitute alternative replacement part trial test draft maybe perhaps possibly "
    "probably likely unlikely supposedly allegedly apparently open closed pending single married engaged alive "
    "pregnant left right true positive negative pro anti pre post inner outer"
)

QUANTIFIERS: Final = _word_set(
    "all some only every each none any most many much few several both half twice once double least enough too always "
    "usually often frequently sometimes occasionally rarely never ever again daily weekly monthly yearly annually "
    "nightly hourly constantly regularly mainly exclusively solely entirely completely fully little lot lots max "
    "maximum minimum approximately roughly total another whole extra"
)

# Points in time. A text with one is about one occasion.
DATES: Final = _word_set(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays "
    "sundays mon tue tues wed thu thur thurs fri sat sun january february march april may june july august september "
    "october november december today tomorrow yesterday tonight now currently presently nowadays recently lately soon "
    "later earlier ago next last previous previously upcoming coming past future present morning mornings noon "
    "afternoon afternoons evening evenings night nights midnight spring summer autumn fall winter q1 q2 q3 q4 am pm "
    "o'clock oclock easter christmas"
)
# Nouns that make a text about one occasion.
OCCASIONS: Final = _word_set(
    "appointment meeting deadline birthday anniversary date reservation booking flight interview"
)
MONTHS: Final = {
    "jan": "january",
    "feb": "february",
    "apr": "april",
    "jun": "june",
    "jul": "july",
    "aug": "august",
    "sep": "september",
    "sept": "september",
    "oct": "october",
    "nov": "november",
    "dec": "december",
}
DAYS: Final = {
    **{"mon": "monday", "tue": "tuesday", "tues": "tuesday", "wed": "wednesday", "thu": "thursday", "thur": "thursday"},
    **{"thurs": "thursday", "fri": "friday", "sat": "saturday", "sun": "sunday", "oclock": "o'clock"},
}
# Read as dates, but they only give an order or mean the present.
ONLY_ORDER: Final = _word_set("now currently presently previous previously earlier")
VAGUE_TIMES: Final = _word_set("nowadays later recently lately soon ago past future present upcoming coming o'clock")
UNDATED: Final = OCCASIONS | ONLY_ORDER | VAGUE_TIMES
"""Words of time that give no date."""
TIMES: Final = _word_set("once twice thrice half double")
TIME_UNITS: Final = _word_set("minute hour day week month quarter year decade century age old")

NUMBERS: Final = {
    word: value
    for value, word in enumerate(
        (
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        )
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
# Numbers that are part of a name or of a larger number: they must agree.
FIXED_NUMBERS: Final = _word_set(
    "hundred thousand million billion dozen couple pair first second third fourth fifth sixth seventh eighth ninth "
    "tenth eleventh twelfth"
)
UNITS: Final = _word_set(
    "kg g mg t km cm mm m mi ft lb lbs oz l ml k kb mb gb tb kcal cal ms s min h hr hrs mph kmh w kw yo yrs"
)
# A number after one of these is a label, not an amount.
LABELLED: Final = _word_set(
    "# at child kid son daughter person team group room flight bus line gate number no nr version phase step chapter "
    "task ticket issue item option plan week day quarter episode season level part bug order id pin code apartment "
    "apt unit question"
)

# Adjectives that only narrow the noun after them: a statement about a "small dog" is about a dog. No colours: red wine
# and white wine are opposed preferences.
DESCRIPTIVE: Final = _word_set(
    "big large huge small tiny tall short long strong weak bright warm fresh homemade delicious tasty beautiful "
    "pretty cute cozy cosy quiet nice lovely spacious experienced skilled talented modern traditional handmade fluffy "
    "friendly playful"
)

# Verbs that start a note; upper case there does not make them names. They may also precede a list of nouns.
VERBS: Final = _word_set(
    "work live own speak know play drink eat use read write watch cook bake run swim hike walk cycle ride drive "
    "travel visit study teach learn collect grow keep build paint draw sing dance practice practise listen follow "
    "attend buy sell wear manage lead report join move plan hope need require believe think feel start stop go come "
    "get take give have do call ask tell say see meet help train sleep wake spend save invest hold serve volunteer "
    "consume order weigh cost earn pay commute rent belong study exercise prefer like love enjoy adore hate dislike "
    "avoid"
)
# Not English after an "i": "i do" is Polish, "i hold" Danish.
NOT_AFTER_I: Final = _word_set("do hold start plan go get see")
# Other words that start a sentence; upper case there does not make them names.
STARTERS: Final = _word_set("name home family pets pet job hobby hobbies interest interests goal goals")

# Pairs that are one thing; half a pair is something else.
FIXED_PAIRS: Final = (
    "fish chips",
    "salt pepper",
    "mac cheese",
    "macaroni cheese",
    "gin tonic",
    "rum coke",
    "whisky soda",
    "bread butter",
    "butter jelly",
    "bacon egg",
    "ham egg",
    "egg soldiers",
    "bangers mash",
    "pie mash",
    "rice beans",
    "pork beans",
    "biscuits gravy",
    "meat potatoes",
    "chicken waffles",
    "burger fries",
    "steak chips",
    "surf turf",
    "cookies cream",
    "strawberries cream",
    "peaches cream",
    "milk cookies",
    "oil vinegar",
    "cheese crackers",
    "cheese onion",
    "sweet sour",
    "bed breakfast",
    "bubble squeak",
    "rock roll",
    "rhythm blues",
    "drum bass",
    "country western",
    "arts crafts",
    "hide seek",
    "trial error",
    "research development",
    "law order",
    "health safety",
    "terms conditions",
    "track field",
    "cat mouse",
    "snakes ladders",
    "cops robbers",
    "nuts bolts",
    "black white",
    "stars stripes",
    "question answer",
    "lost found",
    "supply demand",
    "profit loss",
    "pros cons",
    "mergers acquisitions",
    "search rescue",
    "sales marketing",
    "cut paste",
    "drag drop",
    "copy paste",
    "dungeons dragons",
    "hammer sickle",
    "needle thread",
    "lock key",
    "bow arrow",
    "bucket spade",
    "cup saucer",
)
# After one of these comes a person who takes part, not the value of an attribute.
PARTAKING: Final = _word_set("with by to from and under beside against of user user's")
# People in the user's life: a statement about them is not about the user. Without the -s of a plural.
PEOPLE: Final = _word_set(
    "mother father parent sister brother sibling twin son daughter child kid baby wife husband partner "
    "spouse girlfriend boyfriend fiance fiancé fiancée ex aunt uncle cousin niece nephew grandmother grandfather "
    "grandparent grandson granddaughter godfather godmother godchild stepmother stepfather stepson "
    "stepdaughter friend colleague coworker co-worker boss manager neighbour neighbor roommate flatmate landlord "
    "mother-in-law father-in-law sister-in-law brother-in-law dog cat horse pet"
)

KIN: Final = {"mum": "mother", "mom": "mother", "dad": "father", "grandma": "grandmother", "grandpa": "grandfather"}

# With one of these the order of a list says who has what.
IN_ORDER: Final = _word_set("respectively respective former latter order turn alphabetically")

# Not plurals.
NO_STEM: Final = _word_set(
    "news glasses goods customs means pants savings physics maths mathematics politics economics athletics series "
    "species always sometimes perhaps does james besides arms times towards afterwards this thus yes his hers ours "
    "yours theirs its as is was has us gas bus plus lens alas paris"
)
IRREGULAR: Final = {"does": "do", "has": "have", "goes": "go", "us": "us"}


# British words in American spelling, for the comparison of two texts. No library is kept well enough (the last release
# of breame is of 2021). The table needs only common words: a missing word merely leaves two memories.
AMERICAN: Final = {
    **{"mum": "mom", "mums": "moms", "programme": "program", "programmes": "programs", "ageing": "aging"},
    **{"learnt": "learned", "burnt": "burned", "dreamt": "dreamed", "spelt": "spelled", "whilst": "while"},
    **{"fulfil": "fulfill", "fulfils": "fulfills", "enrol": "enroll", "enrols": "enrolls", "enrolment": "enrollment"},
    **{"centred": "centered", "metres": "meters", "axe": "ax", "towards": "toward", "amongst": "among"},
}
# Parts of words.
AMERICAN_STEMS: Final = {
    **{"behaviour": "behavior", "colour": "color", "favour": "favor", "flavour": "flavor", "harbour": "harbor"},
    **{"honour": "honor", "humour": "humor", "labour": "labor", "neighbour": "neighbor", "odour": "odor"},
    **{"rumour": "rumor", "savour": "savor", "vapour": "vapor", "armour": "armor", "centre": "center"},
    **{"theatre": "theater", "kilometre": "kilometer", "centimetre": "centimeter", "millimetre": "millimeter"},
    **{"litre": "liter", "fibre": "fiber", "calibre": "caliber", "grey": "gray", "tyre": "tire", "analys": "analyz"},
    **{"paralys": "paralyz", "licence": "license", "practis": "practic", "defence": "defense", "offence": "offense"},
    **{"catalogue": "catalog", "jewellery": "jewelry", "jeweller": "jeweler", "aluminium": "aluminum"},
    **{"pyjama": "pajama", "yoghurt": "yogurt", "doughnut": "donut", "paediatr": "pediatr", "anaesth": "anesth"},
    **{"orthopaed": "orthoped", "gynaecolog": "gynecolog", "haemo": "hemo", "oestrogen": "estrogen"},
    **{"diarrhoea": "diarrhea", "manoeuvre": "maneuver", "plough": "plow", "sceptic": "skeptic", "mould": "mold"},
    **{"moustache": "mustache", "marvellous": "marvelous", "woollen": "woolen", "skilful": "skillful"},
    **{"instalment": "installment", "cosy": "cozy", "archaeolog": "archeolog", "encyclopaed": "encycloped"},
}
# Verbs that double their l: "travelling" is "traveling".
DOUBLED_L: Final = (
    "travel",
    "cancel",
    "label",
    "model",
    "level",
    "fuel",
    "marvel",
    "counsel",
    "quarrel",
    "channel",
    "tunnel",
    "signal",
    "dial",
    "total",
    "equal",
    "rival",
    "pedal",
    "jewel",
    "shovel",
    "swivel",
    "unravel",
)
# These are written with -ise everywhere, and other lists have them.
KEEPS_ISE: Final = _word_set("otherwise likewise despise despises despised exercise exercises exercised exercising")
# At the start of a text these may be a person or a party.
SPELT_AS_NAMES: Final = _word_set("grey labour harbour mould armour mum")
# Hyphenated words that are also written as one word.
JOINED: Final = {
    **{"e-mail": "email", "e-mails": "emails", "co-worker": "coworker", "co-workers": "coworkers", "mid-day": "midday"},
    **{"on-line": "online", "off-line": "offline", "web-site": "website", "e-book": "ebook", "e-books": "ebooks"},
    **{
        "co-operate": "cooperate",
        "co-ordinate": "coordinate",
        "co-ordinator": "coordinator",
        "news-letter": "newsletter",
    },
}
