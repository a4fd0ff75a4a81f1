"""The codes of languages: primary subtags of BCP 47, in small letters.

All of ISO 639-1, and of ISO 639-3 those that CLDR names in English or that the detector of languages tells
(docs/languages.md). A language with a code of two letters has no other one. `und` is an undetermined language.
"""

from typing import Final

_CODES: Final = """
    aa ab ace ach ada ady ae aeb af afh agq ain ak akk akz ale aln als alt am an ang ann anp apw ar arc arn aro arp
arq ars arw ary arz as asa ase ast atj av avk awa ay az azb ba bal ban bar bas bax bbc bbj bcl be bej bem bew
bez bfd bfq bg bgc bgn bh bho bi bik bin bjn bkm bla blo blt bm bn bo bpy bqi br bra brh brx bs bss bua bug bum
bxr byn byv ca cad car cay cch ccp ce ceb cgg ch chb chg chk chm chn cho chp chr chy cic ckb clc co cop cps cr
crg crh crj crk crl crm crr crs cs csb csw cu cv cy da dak dar dav de del den dgr din diq dje doi dsb dtp dty
dua dum dv dyo dyu dz dzg ebu ee efi egl egy eka el elx eml en enm eo es esu et eu ewo ext fa fan fat ff fi fil
fit fj fo fon fr frc frm fro frp frr frs fur fy ga gaa gag gan gay gba gbz gd gez gil gl glk gmh gn goh gom gon
gor got grb grc gsw gu guc gur guz gv gwi ha hai hak haw hax he hi hif hil hit hmn hnj ho hr hsb hsn ht hu hup
hur hy hz ia iba ibb id ie ig ii ik ikt ilo inh io is it iu izh ja jam jbo jgo jmc jpr jrb jut jv ka kaa kab kac
kaj kam kaw kbd kbl kcg kde kea kek ken kfo kg kgp kha kho khq khw ki kiu kj kk kkj kl kln km kmb kn ko koi kok
kos kpe kr krc kri krj krl kru ks ksb ksf ksh ku kum kut kv kw kwk kxv ky la lad lag lah lam lb lez lfn lg li
lij lil liv lkt lld lmo ln lo lol lou loz lrc lsm lt ltg lu lua lui lun luo lus luy lv lzh lzz mad maf mag mai
mak man mas mde mdf mdr men mer mfe mg mga mgh mgo mh mhr mi mic mid min mk ml mn mnc mni moe moh mos mr mrj ms
mt mua mul mus mwl mwr mwv my mye myv mzn na nan nap naq nb nd nds ne new ng nia niu njo nl nmg nn nnh nnp no
nog non nov nqo nr nso nus nv nwc ny nym nyn nyo nzi oc oj ojb ojc ojs ojw oka om or os osa ota pa pag pal pam
pap pau pcd pcm pdc pdt peo pfl phn pi pis pl pms pnb pnt pon pqm prg pro ps pt qu quc qug raj rap rar rej rgn
rhg rif rm rn ro rof rom rtm ru rue rug rup rw rwk sa sad sah sam saq sas sat saz sba sbp sc scn sco sd sdc sdh
se see seh sei sel ses sg sga sgs sh shi shn shu si sid sjd sje sju sk sl slh sli sly sm sma smj smn sms sn snk
so sog sq sr srn srr ss ssy st stq str su suk sus sux sv sw swb syc syr szl ta tce tcy te tem teo ter tet tg tgx
th tht ti tig tiv tk tkl tkr tl tlh tli tly tmh tn to tog tok tpi tr tru trv trw ts tsd tsi tt ttm ttt tum tvl
tw twq ty tyv tzm udm ug uga uk umb und ur uz vai ve vec vep vi vls vmf vmw vo vot vro vun wa wae wal war was
wbp wo wuu xal xh xmf xnr xog yao yap yav ybb yi yo yrl yue za zap zbl zea zen zgh zh zu zun zxx zza
"""
LANGUAGE_CODES: Final = frozenset(_CODES.split())


def check_language(code: str) -> str:
    """Return the code of a language unchanged. Raise ValueError for what is none."""
    if code not in LANGUAGE_CODES:
        raise ValueError("not a language: expected a code of ISO 639 such as de, pt or fil; und: undetermined")
    return code
