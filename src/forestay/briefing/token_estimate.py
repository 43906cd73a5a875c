"""Estimate how many tokens a text costs at most, without a tokenizer.

The rule of thumb is a token for three ASCII characters, one for any other character, and three for
one beyond the basic plane. Alone it is too low by up to three times: for digits, brackets, hashes,
most languages but English, and whatever a vocabulary has to spell byte by byte. So `estimate` uses
the rule of thumb as its floor and adds up what the text consists of:

- A word of ASCII letters is split between letters that rarely occur together. `_CUTS` holds, for
  each pair of letters, how likely that is, in eighths of a token: almost never within "the",
  certainly within "qzx". Fitted on words of 25 languages and on random letters.
- Digits, punctuation and white space cost one each; a single space inside a line belongs to the
  word or sign that follows it. Letters right after a digit count as a hash, not as a word.
- Any other character costs its bytes in UTF-8, which no tokenizer exceeds, or one token if it is
  in `_WHOLE`, the ones that every tokenizer has. Some tokenizers decompose characters first
  (NFKC): then the bytes of the parts count.

The tests compare it with four vocabularies of three vendors, on prose, code, tables, hashes, CJK,
emoji and on hostile text. Not covered: vocabularies of fifty thousand entries and less, common
before 2023, need more tokens outside ASCII; and letters chosen with knowledge of `_CUTS` can
cost half as much again as estimated.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_CUTS = (  # row: first letter; column: second letter
    "82108558486050838000378628",  # a
    "78851888885488388538588808",  # b
    "58884851680688088280788888",  # c
    "88864888568877888848878848",  # d
    "08201888888354888006838578",  # e
    "88888388888588388188678888",  # f
    "88883850788588588068888888",  # g
    "08880888088888188567878878",  # h
    "76008348888130088300828886",  # i
    "88888888888888888888488888",  # j
    "88883888888888888848888848",  # k
    "68851488286088288878888808",  # l
    "12880588288888548488868628",  # m
    "78100808566864488800888868",  # n
    "68858188788530258013062878",  # o
    "38880864584088458265888888",  # p
    "88788888888888885887588887",  # q
    "48850888385858088734878808",  # r
    "88882880788788538603688888",  # s
    "78782880068688088236887868",  # t
    "38784848788482838000888888",  # u
    "88881888388888888885888888",  # v
    "17880862588885388878888888",  # w
    "84188588888888888884888888",  # x
    "88888878888888888885888888",  # y
    "88888887888888887888888868",  # z
)

_WHOLE = frozenset(
    "…–—’‘“”·•€→×«»„°§±¿¡£©"
    "ÁÂÃÇÉÍÓÜßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýāăąćčđęěğīıłńōőœřśşšţūůźżžưșț"
    "αβγεθικλμνοπρστφω"
    "АБВГДЕЗИКЛМНОПРСТУФЧЯабвгдежзийклмнопрстуфхцчшщъыьэюяёі"
    "אבדהוילמנערשת"
    "ابةتجحخدرزسشصطعفقكلمنهوىيکی"
    "कतनमरलसह"
    "อา"
    "あいうえおかがきくけこさしすせそただちっつてでとどなにのはばまみめもやよらりるれわをん"
    "アィイウェエオカキクグコサシジスセタッテデトドパフブプマムメュョラリルレロンー"
    "一万三上下不与专业东两个中串为主么义之也书了事二于五些交产京人今从他付代以们件价任份企优"
    "会传但位体何余作你使例供保信修值停像元先入全公共关其具内册再写出击分列则初利别到制前力功"
    "加务动動包化北区十华单南即历原去县参及反发取变口只可台右号司合同名后向否含启告员周命和品"
    "哈商器四回因国图土在地场址型城基報場填增处备复外多大天失头好如始子字存学安完定实客家容密"
    "对导将小少尔就局展山州工左已市布常平年并广序库应店度建开异式引张当录形影径待後得微心必志"
    "态思性总息您情意感成我或户所手打找技投报拉持指按换据排接推提播支收改放政效数整文料断新方"
    "族无日时明易星是時景更最月有服期未本机权束条来板构析果查标样核格案检模次止正此步段每比民"
    "水求江没治法注活流海消清游源点然片版物特率环现理生用由电画界登的监目直相省看真知码确示社"
    "票种科秒称移程空立站章端符第等签简算管箱类系素索约级线组经结给络统编网置老考者而联能自至"
    "色节英藏行表装西要见规视角解言計计认议记论设证评试话询该详语误说请读调象责败账购费资起超"
    "路身车转软载辑输达过运近还这进连述退送选通速造道邮部都配释里重量金钮链销错键长開間関门闭"
    "问间队阳陆限院除集需非面音页项预频题额首验高黑"
    "가간값개게경고과구그기나내는니다당대도동되된드들라래러력로료를름리만면문미번보복부분사산"
    "상색서성세소수스습시식아야어에여열오와요용우원위으은을음의이인일입자작장재전정제주지째치"
    "크터트하한할해호화환"
)

ONCE = 3
"""Tokens added for every text: its first word lacks the space that vocabularies expect,
and averages are unreliable for a text of three words."""

_WORD = re.compile("[A-Za-z]+")
_AFTER_DIGIT = re.compile("(?<=[0-9])[A-Za-z]+")
_OTHER = re.compile("[^\x00-\x7f]")
_CARRIED_SPACE = re.compile(r"(?<=[^ \t\r\n]) (?=[!-/:-~])")


def estimate(text: str) -> int:
    """Return at least as many tokens as a tokenizer makes of the text."""
    return cost(text) + ONCE if text else 0


def cost(text: str) -> int:
    """Return the cost of a line in a larger text: lines together never cost more than the sum."""
    words, others = _WORD.findall(text), _OTHER.findall(text)
    plain = len(text) - len(others)
    signs = plain - sum(map(len, words)) - len(_CARRIED_SPACE.findall(text))
    eighths = sum(map(_word, words)) + 8 * (signs + sum(map(_other, others)))
    # Letters right after a digit are not a word: add the difference in cost.
    eighths += sum(max(0, 6 * len(w) - _word(w)) for w in _AFTER_DIGIT.findall(text))
    thirds = plain + 3 * sum(3 if char > "\uffff" else 1 for char in others)
    return max(-(-eighths // 8), -(-thirds // 3))


@lru_cache(maxsize=4096)
def _word(word: str) -> int:
    # No vocabulary has very long words; "erererer…" would otherwise be one token.
    beyond_ten = 5 * max(0, len(word) - 10)
    capital = 4 if word[0] < "a" else 0
    cuts = sum(map(_cut, word, word[1:]))
    return min(8 * len(word), max(8, 6 + capital + cuts + beyond_ten))


def _cut(one: str, two: str) -> int:
    if two < "a":  # a capital within a word begins a new token
        return 8
    return int(_CUTS[ord(one.lower()) - 97][ord(two) - 97])


@lru_cache(maxsize=4096)
def _other(char: str) -> int:
    if char in _WHOLE:
        return 1
    parts = unicodedata.normalize("NFKC", char)
    return max(_bytes(char), _bytes(parts))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
