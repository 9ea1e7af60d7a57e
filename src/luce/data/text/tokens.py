"""Words, stems and grams of a text as a search engine makes them: what stands between a text and a term of an index.

`version` 1 is frozen: a model names it, and a change makes a new version. A view is an analyzer of Lucene: `word` takes
runs of letters or numbers, in lower case, without accents, and stems them; `exact` does not stem; `pair` are two
neighbouring stems; `gram` are three neighbouring letters or digits; `number` are the tokens that begin with a digit.
Stems are those of Porter (1980) with the two endings that he changed later, as Lucene's `porter_stem` has them.
This file needs Python alone: an export carries it as it is.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

VERSION = 1
LANGUAGES = ("english", "none")
PATTERN = r"[\p{L}\p{M}]+|\d+(?:[.]\d+)*"
"""The tokens of the views word, exact and pair, as an engine's pattern tokenizer takes it."""
NUMBER_PATTERN = r"\d+(?:[.]\d+)*"
GRAM = 3
_FOLDS = (  # noqa: SIM905
    "ae æǣǽᴂ d ðđɖɗƌȡᵭᶁᶑꝺ o øɔɵǿᴖᴗᶗⱺꝋꝍ th þᵺꝧ ss ß h ħɥɦʮʯⱨⱶ i ıɨᴉᵼᶖ ij ĳ q ĸɋʠꝗꝙ l ŀłƚȴɫɬɭᶅⱡꝇꝉꞁ n ŉŋɲƞȵɳᵰᶇ oe œᴔ "
    "t ŧƫƭʈȶⱦʇᵵ s ſȿʂᵴᶊẜẝ b ƀɓƃᵬᶀ c ƈȼɕↄꜿ e ǝɛɇɘɜɝɞʚᴈᶒᶓᶔⱸ a əⱥɐɚᶏᶕẚₔ f ƒᵮᶂẛꝼ g ɠɡᵷᵹᶃꝿ hv ƕ k ƙʞᶄⱪꝁꝃꝅ m ɯɰɱᵯᶆ "
    "p ƥᵱᵽᶈꝑꝓꝕꟼ R ʀʁᴙᴚ v ʋʌᶌⱱⱴꝟ y ƴɏʎỿ z ƶȝȥɀʐʑᵶᶎⱬꝣ w ƿʍⱳ dz ǆǳʣʥ lj ǉ nj ǌ G ǥǧɢʛ ou ȣ j ȷɉɟʄʝ db ȸ qp ȹ u ʉᶙ "
    "r ɍɼɽɾɿᵲᵳᶉꝛꞃ I ɪᵻꟾ N ɴᴎ OE ɶ Y ʏ C ʗᴄ B ʙᴃ H ʜ L ʟᴌ ts ʦ tc ʨ ls ʪ lz ʫ A ᴀ AE ᴁ D ᴅᴆ E ᴇⱻ J ᴊ K ᴋ M ᴍꟽꟿ O ᴏᴐ "
    "OU ᴕ P ᴘ T ᴛ U ᴜᵾ V ᴠ W ᴡ Z ᴢ ue ᵫ x ᶍ ll ỻ tz ꜩ F ꜰꟻ S ꜱꞅ aa ꜳ ao ꜵ au ꜷ av ꜹꜻ ay ꜽ oo ꝏ vy ꝡ ﬅ ﬅ"
).split()
_ODD = {letter: new for new, letters in zip(_FOLDS[::2], _FOLDS[1::2], strict=True) for letter in letters}
_COMPOSED = ((0x80, 0x24F), (0x1E00, 0x1EFF))
_COMPATIBLE = ((0x1D62, 0x1D65), (0x2071, 0x209C), (0x2C7C, 0x2C7C), (0xFB00, 0xFB06), (0xFF00, 0xFFEF))
_SUBSCRIPTS = (0x2095, 0x209C)
"""Younger than the filter, which leaves them alone."""


def _folded(letter: str) -> str:
    """A letter in lower case and without accents, as Lucene's two filters leave it, one character at a time."""
    lower = letter.lower()
    lower = lower if len(lower) == 1 else "i" if letter == "İ" else letter
    if lower in _ODD:
        return _ODD[lower]
    code = ord(lower)
    forms: tuple[tuple[Literal["NFD", "NFKD"], tuple[tuple[int, int], ...]], ...] = (
        ("NFD", _COMPOSED),
        ("NFKD", _COMPATIBLE),
    )
    form = next((form for form, blocks in forms if any(a <= code <= b for a, b in blocks)), None)
    if form is None or _SUBSCRIPTS[0] <= code <= _SUBSCRIPTS[1]:
        return lower
    plain = "".join(part for part in unicodedata.normalize(form, lower) if not unicodedata.combining(part))
    return plain.lower() if plain.isascii() and plain.isalnum() else lower


class _Fold(dict[int, str]):
    """What becomes of each character of a token; asked for once."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        self[code] = found = letter.lower() if code < 128 else _folded(letter)
        return found


class _Kept(dict[int, str]):
    """Characters beyond ASCII that may stand in tokens, by their Unicode category; a blank for the others."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.kinds = kinds

    def __missing__(self, code: int) -> str:
        kept = code < 128 or unicodedata.category(chr(code)).startswith(self.kinds)
        self[code] = found = chr(code) if kept else " "
        return found


_FOLD, _LETTERS, _LETTERS_DIGITS = _Fold(), _Kept(("L", "M")), _Kept(("L", "Nd"))
_WORDS = re.compile(r"[a-zA-Z\x80-\U0010ffff]+|[0-9]+(?:[.][0-9]+)*").findall
_RUNS = re.compile(r"[0-9a-zA-Z\x80-\U0010ffff]+").findall


def words(text: str) -> list[str]:
    """The tokens of the view `exact`.

    >>> words("3/4-in. Café PVC-Rohr 1.5m")
    ['3', '4', 'in', 'cafe', 'pvc', 'rohr', '1.5', 'm']
    """
    return _WORDS(text.lower() if text.isascii() else text.translate(_LETTERS).translate(_FOLD))


def runs(text: str) -> list[str]:
    """The runs of letters and digits that grams are cut from; accents are taken off afterwards."""
    return _RUNS(text.lower() if text.isascii() else text.translate(_LETTERS_DIGITS))


def grams(run: str) -> list[str]:
    """Three neighbouring characters of a run; a letter that becomes two, as in Lucene, does so afterwards.

    >>> grams("Straße")
    ['str', 'tra', 'rass', 'asse']
    """
    found = [run[i : i + GRAM] for i in range(len(run) - GRAM + 1)]
    return found if run.isascii() and run.islower() else [gram.translate(_FOLD) for gram in found]


_SECOND = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_THIRD = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_FOURTH = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def _kinds(word: str) -> str:
    """Vowels as v and consonants as c; y is a vowel after a consonant."""
    kinds: list[str] = []
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and bool(kinds) and kinds[-1] == "c")
        kinds.append("v" if vowel else "c")
    return "".join(kinds)


def _measure(word: str) -> int:
    return _kinds(word).count("vc")


def _short(word: str) -> bool:
    """Whether it ends as `hop`: consonant, vowel, and a consonant that is none of w, x and y."""
    return _kinds(word).endswith("cvc") and word[-1] not in "wxy"


def _first(word: str) -> str:
    """Plurals, -ed and -ing, and a last y."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and word[-2] != "s":
        word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _measure(word[:-3]) else word
    else:
        for end in ("ed", "ing"):
            if word.endswith(end) and "v" in _kinds(word[: -len(end)]):
                word = word[: -len(end)]
                if word.endswith(("at", "bl", "iz")):
                    word += "e"
                elif len(word) > 1 and word[-1] == word[-2] and _kinds(word)[-1] == "c":
                    word = word if word[-1] in "lsz" else word[:-1]
                elif _measure(word) == 1 and _short(word):
                    word += "e"
                break
    return word[:-1] + "i" if word.endswith("y") and "v" in _kinds(word[:-1]) else word


@lru_cache(1 << 17)
def stem(word: str) -> str:
    """The stem of a word in lower case.

    >>> [stem(word) for word in ("brackets", "mounting", "relational", "hopping", "sky", "io")]
    ['bracket', 'mount', 'relat', 'hop', 'sky', 'io']
    """
    if len(word) < 3:
        return word
    word = _first(word)
    for changes in (_SECOND, _THIRD):
        for end, new in changes:
            if word.endswith(end):
                word = word[: -len(end)] + new if _measure(word[: -len(end)]) else word
                break
    for end in _FOURTH:
        before = word[: -len(end)]
        if word.endswith(end) and (end != "ion" or before.endswith(("s", "t"))):
            word = before if _measure(before) > 1 else word
            break
    if word.endswith("e"):
        size = _measure(word[:-1])
        word = word[:-1] if size > 1 or (size == 1 and not _short(word[:-1])) else word
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
