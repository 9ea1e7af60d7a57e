"""Words and grams of a text as a search engine makes them: what stands between a text and a term of an index.

`version` 1 is frozen: a model names it, and a change makes a new version. A view is an analyzer of Lucene: `word` takes
runs of letters or numbers, in lower case, without accents, and stems them; `exact` does not stem; `pair` are two
neighbouring stems; `gram` are three neighbouring letters or digits; `number` are the tokens that begin with a digit.
This file needs Python alone: an export carries it as it is.
"""

from __future__ import annotations

import re
import unicodedata
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
