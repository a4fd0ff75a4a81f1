"""English word lists in lower case: for the test for English, without endings, and the months."""

from typing import Final


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


GRAMMAR: Final = _word_set(
    "the and a an of with which this that these those there their theirs they them themselves it it's its itself you "
    "your yours yourself she she's hers herself he's his him himself my mine myself i'm i've i'd i'll we're we've our "
    "ours us who who's whose what when where why how because since although though unless until while whether if than "
    "then from into onto upon about above below between through during before after behind beside besides beyond "
    "without within toward towards across along among against around near off up down out instead rather not n't "
    "don't doesn't didn't isn't aren't wasn't weren't hasn't haven't hadn't can't cannot couldn't won't wouldn't "
    "shouldn't mustn't never nothing nobody nowhere none neither nor either or but yet still just only also too very "
    "quite really even almost already always often usually sometimes seldom rarely again once twice every each both "
    "many much more most few less least several another other others such same any anyone anything anybody someone "
    "something somebody everyone everything everybody are been being has had does did done would could should shall "
    "might must ought were i'd they're they've they'd we'd that's there's here's what's let's now today tomorrow "
    "yesterday tonight soon later ago currently recently always together apart away back whenever wherever whatever "
    "two three four five six seven eight nine ten eleven twelve hundred thousand first second third half"
)
"""Function words that English shares with few languages."""

VERBS: Final = _word_set(
    "accept add admire adopt adore agree allow answer apply argue arrive ask assist attend avoid bake become begin "
    "believe belong borrow bought break breathe bring brought build built burn buy call came cancel care carry catch "
    "cause celebrate change charge check choose chose clean climb close collect come commute compare complain "
    "complete connect consider contain continue cook cost count cover create cry cut dance deal decide decline "
    "deliver depend describe deserve design detest develop die dig discuss dislike divide draw dream drew drink drive "
    "drove drop earn eat end enjoy enter exercise exist expect explain fail fall fear feed feel felt fetch fight fill "
    "find finish fit fix fly follow forbid forget forgot found freeze gave get give given go goes gone got graduate "
    "grew grow guess handle happen hate hear heard heat help hide hike hire hold hope hurry hurt ignore improve "
    "include increase inform inherit insist invest invite join jump keep kept kick kill kiss knew knit knock know "
    "known laugh lead learn learnt leave lend let lie lift like listen live loathe lock look lose lost love made make "
    "manage marry matter mean measure meditate meet mention met mind miss mix move need notice obey offer open order "
    "organise organize owe own paint park pay perform pick plan play please pour practice practise pray prefer "
    "prepare promise protect prove pull purchase push put quit raise ran reach read realise realize receive recommend "
    "record reduce refuse relax rely remember remind remove rent repair repeat replace reply report request require "
    "rescue reside rest retire return ride ring rise roast rode run said sail sang save saw say search see seem seen "
    "sell send sent serve settle sew share shave shop should shout show shut sign sing sit skate ski skip sleep slept "
    "smell smile smoke sneeze snow sold solve speak spell spend spent spoke stand start state stay steal stop store "
    "study suffer suggest support suppose swam swear swim switch take taken talk taste taught teach tell thank think "
    "thought throw told took touch train translate travel treat trust try turn understand use visit volunteer vote "
    "wait wake walk want wash watch wear weigh went win wish woke won wonder wore work worry write written wrote yell"
)

NOUNS: Final = _word_set(
    "ability accident account actor address advice afternoon age agreement airport allergy animal answer apartment "
    "appetite appointment april arm army art aunt autumn baby bag ball balloon bank bath beach bean beard bed bedroom "
    "beef beer bicycle bike bill bird birthday biscuit blanket blood board boat body bone book boot boss bottle box "
    "boy boyfriend brain branch bread breakfast bridge brother building business butter cake calendar camera candle "
    "car card career cat chair cheese cheesecake chess chicken child childhood children chocolate choice church city "
    "class classmate clock clothes cloud coat coffee coin colleague colour color company computer cookie corner "
    "cotton country course cousin coworker cow cream cup customer dad danger dark date daughter day deadline deal "
    "december decision degree dentist desk diary dinner dish doctor dog door dress driver dust ear earring earth edge "
    "egg employee employer engine engineer engineering enough evening event exam example eye face fact factory family "
    "farm farmer father feather february feeling fever fiction field finger fire fish flat flight floor flower fog "
    "food foot football friday friend friendship fruit fun funeral furniture future game garden gardener girl "
    "girlfriend glass glove goal gold goldfish government grandfather grandmother grandson granddaughter grape grass "
    "ground group guest guitar guy habit hair haircut hallway hamster handwriting headache health heart height helmet "
    "history hobby holiday home homework honey horse hospital hour house housework husband ice idea illness injury "
    "insurance interest island january jacket jam jeans job joke journey juice july june keyboard kid kitchen knee "
    "knife knowledge lake lamp landlord language laptop law lawyer leader leaf leather lecture leg lemon lesson "
    "letter library licence license life light line lion living luck lunch lung machine mail manager march marriage "
    "math maths maybe meal meat medicine meeting memory message milk minute mirror monday money monkey month mood "
    "moon morning mother motorbike mountain mouse mouth movie mum mom music mushroom name neck neighbour neighbor "
    "nephew news newspaper niece night noise noon north nose notebook november nurse nut october office oil onion "
    "opinion orange oven pain painting pair paper parent parents part party passport path pea peanut pen pencil "
    "people pepper person pet phone photo picture piece pig pillow place plane plant plate player pocket poem police "
    "pool potato pound power present price problem project proof purpose puzzle quarter queen question rabbit race "
    "rain reason recipe restaurant result rice river road room roof root rule runner safety salad salary salmon salt "
    "sand saturday sausage school science scissors sea seafood season seat secret september shape sheep sheet shelf "
    "ship shirt shoe shoulder shower sibling side sign silver singer sister sky snack snake sofa software soil "
    "someone son song soul soup south speech spider spoon spring square stairs stamp star station stepfather "
    "stepmother stomach stone story stranger strawberry stream street strength student subject sugar suit summer sun "
    "sunday surgery sweater table tail tale task tea teacher team teammate teenager teeth temperature thing thought "
    "throat thumb thursday ticket time toast tongue tool tooth toothbrush town toy trade traffic train training "
    "travel tree trip trouble trousers truck truth tuesday turtle twin umbrella uncle unit university user vacation "
    "vegetable vegetarian view village violin visitor voice wage wall wallet war water way weather website wedding "
    "wednesday week weekday weekend weight west wheel wife wind window wine winter woman women wood wool word worker "
    "workshop world wrist writer year yoga youth accountant apprentice architect artist athlete baker banker barber "
    "bartender beginner bookkeeper builder butcher captain carpenter cashier childminder cleaner clerk coach "
    "consultant cyclist dancer designer developer drummer editor electrician fisherman firefighter flatmate florist "
    "freelancer fundraiser goalkeeper grandparents guitarist hairdresser housekeeper interpreter janitor jogger "
    "journalist judge lecturer librarian lifeguard mechanic midwife musician nanny novelist optician owner painter "
    "paramedic pharmacist philosopher photographer physician physicist pianist plumber postman priest programmer "
    "psychologist researcher roommate runner sailor salesman saleswoman schoolteacher scientist seamstress secretary "
    "shopkeeper smoker soldier solicitor surgeon surveyor swimmer tailor tailor therapist translator tutor vet "
    "veterinarian volunteer waiter waitress weaver widow widower budget invoice summary bullet point heading sentence "
    "paragraph chart screen button folder server database feature release version draft password backup keyword "
    "customer client supplier contract agenda appointment reminder schedule spelling grammar quote quotes offer tax "
    "bill rate screenshot bug ticket sprint stand-up standup feedback review branch leftovers cupboard wardrobe "
    "curtain carpet ceiling cellar attic garage garden fence gate lawn hedge shed roof tap kettle toaster freezer "
    "dishwasher towel soap shampoo laundry iron needle thread button zip sleeve collar glove ankle elbow hip rib "
    "spine lip tongue cheek chin eyebrow eyelid wrist cough fever rash bruise migraine asthma deadline headphones "
    "leftovers loan mattress mortgage pension rent salary savings wages"
)

QUALITIES: Final = _word_set(
    "able afraid alive allergic alone angry annoyed asleep available awake bad beautiful best better big bitter black "
    "blind blue boring born bored brave brief bright broken brown busy calm cheap cheerful chief clear clever cold "
    "comfortable common content cooked cool correct crazy daily dangerous dead deaf dear deep delicious different "
    "difficult dirty divorced dry early easy eldest empty engaged excited expensive extra fair famous fat favorite "
    "favourite final fine fond foreign free fresh friendly full funny gentle glad good great green grey gray happy "
    "hard healthy heavy helpful high hot huge hungry ill important interested interesting intolerant jealous keen "
    "kind large last late lazy left long loud loved lovely low lucky mad main married medium mild modern monthly "
    "narrow nearby nervous new nice noisy normal okay old older oldest own pale perfect pink plain pleasant polite "
    "poor popular possible pregnant pretty private proud public purple quick quiet rare raw ready real red "
    "responsible rich right rough round rude sad safe salty scared sensitive serious severe sharp short shy sick "
    "silent simple single slow small smart smooth soft sorry sour southern spare special spicy steep strange strict "
    "strong stubborn sudden sure sweet tall terrible thick thin thirsty tight tiny tired tough true ugly unable "
    "unemployed upset used useful usual vegan violent warm weak weekly well western wet whole wide wild wise worried "
    "worse worst wrong yearly yellow young younger youngest unmarried widowed unhappy unfair unhealthy unwell blonde "
    "dizzy deaf dyslexic diabetic vegetarian lactose-intolerant left-handed right-handed self-employed full-time "
    "part-time"
)

SHARED: Final = _word_set(
    "a i an in is was on me no to do so he we be by at as am for over under here her have will can may her den die "
    "dem man men hat hand arm art wind rate gift fast bald also war list note chat pain coin main son sale once pie "
    "come case fare dove more mine ten us or but if van bad barn glass gang kind rock rose slut star rest rot hell "
    "tag tot not ton pour plus sans fin long mit son car met bon dire lit part place court grave chose table six rue "
    "de la sin pan red sol mar once sea cola real base dice fue pies dame time sole vale due fine cane estate ago "
    "mane male pace solo pane sera camera sonata opera pizza radio hotel taxi email internet video film park bar "
    "sport club test water winter warm wild bank arm ring finger bring hard butter name land april august september "
    "november oktober december juli juni dag god let still under over begin start stop plan team job baby party "
    "computer laptop app restaurant piano guitar violin chef manager yoga sofa salon menu animal actor normal final "
    "general idea local total capital hospital natural central visual personal global hostel social plural manual "
    "formal ideal legal fatal moral mental moment student professor station nation situation information question "
    "action passion region religion version pension television mission silence patience science distance finance "
    "danse village message image garage courage page age cause pause usage sauce minute note route culture nature "
    "figure mature possible double table simple terrible sensible vegan single art concert film passport kit ski "
    "sauna bus auto moto foto tram metro euro album museum data status virus bonus campus lotus opus focus minus "
    "index pater mater modem tandem item fan pop jazz rap blues folk chic sign mail blog web link like post cool fun "
    "fit sexy stress trend design service"
)
"""Words of the other lists, or near them, that texts in another language have as well. They prove nothing."""

FOREIGN: Final = _word_set(
    # Germanic
    "der das des dem ein eine einen einem einer und oder aber nicht kein keine ich du er sie wir ihr ist sind hat "
    "haben wird mit auf für von zu zum zur bei aus nach auch noch sehr mein dein sein het een en ik jij zij wij hij "
    "niet geen maar ook naar voor op aan bij heeft hebben zijn wordt te dat deze og jeg det ikke som til på af av har "
    "den de vi hun han et å ett är och inte jag att med om från eru ekki"
    # Romance
    "el los las una unos unas pero con por para que es está están muy su sus mi tu se lo le les del al yo ella "
    "nosotros usted como más ya il gli un uno di che non sono è ho ha hai nel della dei delle alla mio suo anche "
    "molto piace os um uma da dos não na eu ele ela você são foi mas la une est sont je elle nous vous ils pas ne qui "
    "dans sur avec au aux ce cette mon ton ses leur j'ai c'est n'est și este nu cu pe din sunt sau mai îmi els amb"
    # Slavic, Baltic, Uralic in Latin letters
    "jest nie się że jak ma po jsem ve že má si za nije koji li yra ar ja ei minä olen hän että mutta és egy nem "
    "vagyok hogy az nagyon ta"
    # Turkish, Malay, Vietnamese, Filipino, African and Indian languages in Latin letters
    "bir bu için değil çok sen biz yang dan ke dari untuk dengan tidak ini itu saya dia suka adalah là và không của "
    "tôi có một cho ang ng mga sa ay ko siya hindi gusto ni wa kwa katika nahi nahin ka ki hain tha thi aur bahut "
    "pasand nna"
)
"""Function words of other languages that English does not have."""
MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
"""The months in order, in lower case."""
