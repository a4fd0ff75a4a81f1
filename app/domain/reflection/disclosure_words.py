"""Word lists of the self-disclosure rule. All lower case, all English."""

from typing import Final


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


OPENERS: Final = word_set(
    "hi hello hey ok okay well yes yeah no nope also actually btw oh thanks sorry and but so because since though fyi "
    "please note that now today yesterday"
)
ADVERBS: Final = word_set(
    "just really always usually often also still now never currently recently finally only mostly generally sometimes "
    "actually already both even absolutely very quite strictly severely all not longer no do does did "
    "deadly highly seriously extremely"
)
STATES: Final = word_set(
    "live work study speak wear drive own use take play ride teach support collect volunteer belong suffer eat drink "
    "cook run rent weigh identify earn commute grew come came attend manage breed grow practise practice smoke lead "
    "report studied worked"
)
PREFERENCES: Final = word_set("like love hate prefer dislike enjoy adore fear loathe favour favor")
CHANGES: Final = word_set(
    "moved married divorced sold bought quit left joined became switched adopted broke gave changed stopped started "
    "retired graduated inherited founded lost resigned separated relocated enrolled converted immigrated emigrated"
)
GOT: Final = word_set("married divorced engaged promoted fired pregnant hired custody tenure") | {"laid", "accepted"}
ABILITIES: Final = word_set("eat drink swim drive ride cook tolerate stand digest hear walk lift climb dance sing have")
PLANS: Final = word_set(
    "learn become move run study buy marry retire start join fly travel visit adopt quit graduate sell open found "
    "climb emigrate live own have lose stop switch train cut"
)
DOING: Final = word_set(
    "planning training learning saving moving flying studying expecting living retiring raising dating renting "
    "recovering suffering applying starting"
)
JOB: Final = word_set("as at for nights shifts part-time full-time remotely")
BOOK: Final = word_set("novel book thesis dissertation memoir memoirs")
TRAITS: Final = word_set(
    "allergic intolerant vegan vegetarian diabetic pregnant married divorced widowed retired unemployed self-employed "
    "deaf blind dyslexic autistic asthmatic celiac coeliac lactose single engaged bilingual gay lesbian bisexual trans "
    "nonbinary disabled jewish muslim christian buddhist hindu catholic sober fond scared terrified interested"
)
BORN: Final = word_set("born raised promoted diagnosed fired hired adopted married divorced laid a an")
POSSESSION_VERBS: Final = word_set(
    "is are was were has have had lives live works work plays play loves love likes like hates hate prefers died "
    "moved uses use teaches taught broke hurts got started turned turns turning studies speaks runs drives owns left "
    "does do goes passed starts begins costs needs wants closes opens allows"
)
OBJECTLESS_VERBS: Final = word_set("died hurts retired")

DECIDED: Final = word_set("chose chosen picked dropped")
"""Verbs of a decision with a plain object. Others take a particle: "go with", "settled on"."""
PROJECTS: Final = word_set(
    "launch relaunch release deadline kickoff kick-off go-live beta pilot migration rollout milestone project budget "
    "due-date sprint offsite"
)
"""Nouns of which a plain sentence states a date, an amount or a name that the speaker's work depends on."""
DONE: Final = word_set("paid signed booked cancelled canceled submitted ordered filed renewed mailed hired sent")
ORDERED: Final = word_set(
    "accept address answer approve ask be begin book buy call cancel cc charge close confirm contact copy deploy "
    "disclose email end format get give greet include inform invite keep mention merge notify offer order pay phone "
    "post promise publish push release remind reply reveal round schedule send share ship sign sound spend start store "
    "translate use write"
)
"""Verbs of a standing rule: "Never send …", "Always ask …"."""

PARTICLES: Final = word_set("to in at as on for up from with off down out of")
POINTERS: Final = word_set(
    "it this that these those them one ones so to too what how why where who which when something anything nothing "
    "everything him her the here there there's"
)
"""First words of an object that refers to the conversation or to something unnamed."""
CONVERSATION_NOUNS: Final = word_set(
    "question questions idea ideas problem problems issue issues error errors bug bugs code script file files text "
    "essay sentence sentences paragraph title answer answers reply response summary version option example examples "
    "list table prompt prompts message messages step steps word words translation result results output input page "
    "link image picture document article program function explanation feedback clue doubt doubts point guess "
    "trouble package command branch request timeout previous understanding apologies turn opinion time moment "
    "comment data column row spreadsheet email query format draft conversation chat suggestion intention assumption "
    "server app apps button field fields string variable repo repository api endpoint database dataset website "
    "browser settings build deploy container cluster slide slides report letter array class module library folder "
    "directory terminal console process test tests line lines screen cursor internet connection"
)
YOU: Final = word_set("you your yours yourself you're")
