"""Word lists of the evidence check (`evidence.py`): English words that open, end or qualify a statement."""

from typing import Final


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH: Final = _word_set(
    "a about after again all an and any are as at be been but by can did do does for from got had has have he her his "
    "i i'm i've if in is it it's its just me my no not now of off on or our she so that that's the their them they "
    "this to too up was we we're we've were what when will with yes you your don't doesn't isn't can't yep yeah sure "
    "please right new instead anymore since last since today"
)
FOREIGN: Final = _word_set(
    "de la el los las que y en ya un una por con para mi es und ich der die das ist nicht mein mit auf von zu je le "
    "les des du et est ne pas mon dans pour il lo gli che di sono non per nel het een ik niet van mijn os um uma eu "
    "não nao meu jag inte och att jeg ikke og nie jest się się bir ve"
)
"""Function words of other languages that are no English words."""
STOP: Final = _word_set(
    "a an the user user's users i me my mine myself we us our ours you your he him his she her they them their it its "
    "this that these those who which what there here is am are was were be been being has have had having do does did "
    "will would shall should can could may might must to of in on at for with by as and or but so than then from into "
    "about during up out off over just also too very really quite more most much some any all each every one ones "
    "another other else named called name new old now currently since still already only both own it's that's i'm "
    "i've we're we've there's until till between around when while how time times thing things lot get got gets take "
    "takes took taken go goes went going make makes made use uses used using need needs want wants"
)
UNITS: Final = _word_set(
    "euro euros dollar dollars pound pounds eur usd gbp cent cents minute minutes hour hours day days week weeks month "
    "months year years morning mornings evening evenings night nights afternoon afternoons today tomorrow yesterday "
    "am pm km kg metre metres meter meters mile miles percent number late early due age"
)
ENDINGS: Final = _word_set(
    "not no never without none nothing longer anymore quit quits stop stops stopped end ended ends over cancel "
    "cancelled canceled cancels finished finish died dead die lost lose sold sell left leave leaves stolen broken "
    "broke gone former formerly ex healed heal cured separated divorced resigned retired closed expired ceased "
    "dropped drop abandoned returned withdrew withdrawn had previously past fired laid passed split"
)
"""Words of a text that say that something is over, or is not so."""
NO_CHANGE: Final = _word_set(
    "nearly almost would could might may maybe perhaps possibly if imagine suppose supposing someday wish wishes hope "
    "hopes hoping dream dreamed dreaming tempted considering wonder wondering pretend hypothetically unless whether "
    "eventually potentially probably likely unlikely unsure undecided fancy rumour rumor rumours rumors apparently "
    "supposedly joking kidding"
)
"""Words of a sentence that supposes or wishes something. `may` counts in lower case only: May is a month."""
SECOND: Final = _word_set("another second also additional extra besides additionally spare")
"""Words that announce one more thing beside the first."""
OTHERS: Final = _word_set(
    "mother father mum mom dad parent parents sister sisters brother brothers sibling siblings twin son sons daughter "
    "daughters child children kid kids wife husband partner spouse girlfriend boyfriend fiance fiancé fiancée ex aunt "
    "uncle cousin cousins niece nephew grandmother grandfather grandma grandpa gran granny grandad grandson "
    "granddaughter stepmother stepfather friend friends mate mates buddy colleague colleagues coworker coworkers "
    "co-worker neighbour neighbor neighbours neighbors roommate roommates flatmate flatmates housemate housemates "
    "in-laws family folks guy man woman lady someone somebody everyone everybody people they're"
)
"""People whose doings are not the user's."""
CHANGES: Final = _word_set(
    "now moved moving move switched switch instead changed change changing became become started start new since "
    "nowadays anymore actually correction promoted renamed swapped traded replaced upgraded settled joined signed "
    "left transferred rescheduled postponed finally already currently latest sold quit raised increased dropped gone"
)
"""Words of a sentence that reports a change."""
CONFIRMS: Final = _word_set(
    "yes yep yeah yup yea aye sure ok okay correct exactly right agreed indeed absolutely definitely perfect deal "
    "confirmed great please"
)
GROUPS: Final = tuple(
    map(
        _word_set,
        (
            "race marathon triathlon run match game tournament",
            "rent landlord landlady lease tenancy",
            "smoke cigarette tobacco cigar vape nicotine",
            "meat steak beef vegetarian vegan",
            "car drive van vehicle",
            "phone mobile iphone smartphone handset",
            "dog puppy hound",
            "cat kitten",
            "engage marry wedding wife husband",
            "child kid son daughter baby born",
            "work job employ employer company firm boss office shift",
            "live home flat house apartment town city",
            "doctor clinic surgery checkup",
            "class course lesson teacher tutor",
            "flight plane fly airport airline",
            "gym workout membership trainer",
            "exam test paper",
            "parcel package delivery courier",
            "drink alcohol beer wine",
            "train rail railway",
            "run jog running",
            "salary pay wage earn",
        ),
    )
)
"""Words that speak of one matter."""
IRREGULAR: Final = {
    **{"bought": "buy", "sold": "sell", "left": "leave", "went": "go", "gone": "go", "ran": "run", "began": "begin"},
    **{"taught": "teach", "broke": "break", "broken": "break", "died": "die", "dying": "die", "drove": "drive"},
    **{"driven": "drive", "driving": "drive", "ate": "eat", "eaten": "eat", "drank": "drink", "flew": "fly"},
    **{"wrote": "write", "written": "write", "paid": "pay", "taken": "take", "took": "take", "knew": "know"},
    **{"children": "child", "met": "meet", "read": "read", "spoke": "speak", "swam": "swim", "stole": "steal"},
    **{"stolen": "steal", "dead": "die", "death": "die", "lost": "lose", "built": "build", "kept": "keep"},
    **{"rode": "ride", "ridden": "ride", "slept": "sleep", "grew": "grow", "grown": "grow", "got": "get"},
    **{"mum": "mother", "mom": "mother", "dad": "father", "healed": "heal", "favourite": "favorite"},
}
ORDINALS: Final = {
    **{"first": "1", "third": "3", "fourth": "4", "fifth": "5", "sixth": "6", "seventh": "7", "eighth": "8"},
    **{"ninth": "9", "tenth": "10", "eleventh": "11", "twelfth": "12"},
}
