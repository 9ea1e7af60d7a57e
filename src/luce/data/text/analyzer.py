"""Tokens of texts as a search engine makes them: what stands between a text and a term of an index.

`version` 1 is frozen: a model names it, and a change makes a new version. A view is an analyzer of Lucene: `word` takes
runs of letters or numbers, in lower case, without accents, and stems them; `exact` does not stem; `pair` are two
neighbouring stems; `gram` are three neighbouring letters or digits; `number` are the tokens that begin with a digit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.text.porter import stem
from luce.types import IntArray

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


class Tokens(NamedTuple):
    """The tokens of texts, one text after another: those of text i are `ids[offsets[i] : offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: IntArray

    @property
    def lengths(self) -> IntArray:
        """How many tokens every text has."""
        return np.diff(self.offsets)

    def mapped(self, new: NDArray[np.int32]) -> Tokens:
        """The same tokens under other numbers."""
        return Tokens(new[self.ids], self.offsets)

    def expanded(self, parts: Tokens) -> Tokens:
        """Every token replaced by its parts."""
        sizes = parts.lengths[self.ids]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        place = np.arange(ends[-1]) - np.repeat(ends[:-1] - parts.offsets[self.ids], sizes)
        return Tokens(parts.ids[place], ends[self.offsets])

    def kept(self, keep: NDArray[np.bool_]) -> Tokens:
        """Some of the tokens."""
        ends = np.concatenate([[0], np.cumsum(keep)])
        return Tokens(self.ids[keep], ends[self.offsets])


class _Numbers(dict[str, int]):
    """A number for every term, in the order in which they come."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self)
        return number


class Analysis:
    """Lists of texts by view, whose terms have numbers in common; every different word is stemmed once."""

    def __init__(self, language: str) -> None:
        self._stems = language == "english"
        self._exact, self._runs = _Numbers(), _Numbers()
        self._other: dict[str, _Numbers] = {"word": _Numbers(), "gram": _Numbers()}
        self._of_exact: list[int] = []
        self._of_run: list[list[int]] = []

    def terms(self, view: str) -> list[str]:
        """The terms of a view, by number."""
        return list(self._exact if view == "exact" or (not self._stems and view == "word") else self._other[view])

    def exact(self, texts: Sequence[str]) -> Tokens:
        """Words as they are."""
        return _tokens(map(words, texts), self._exact)

    def word(self, exact: Tokens) -> Tokens:
        """Stems of words."""
        if not self._stems:
            return exact
        number = self._other["word"]
        new = list(self._exact)[len(self._of_exact) :]
        self._of_exact += [number[stem(term)] for term in new]
        return exact.mapped(np.array(self._of_exact, dtype=np.int32))

    def numbers(self, exact: Tokens) -> Tokens:
        """The words that are numbers."""
        digit = np.array([term[0].isdigit() for term in self._exact], dtype=bool)
        return exact.kept(digit[exact.ids]) if len(digit) else exact

    def gram(self, texts: Sequence[str]) -> Tokens:
        """Three characters each."""
        found = _tokens(map(runs, texts), self._runs)
        number = self._other["gram"]
        new = list(self._runs)[len(self._of_run) :]
        self._of_run += [[number[gram] for gram in grams(run)] for run in new]
        return found.expanded(_flat(self._of_run))


def _tokens(found: map[list[str]], number: _Numbers) -> Tokens:
    return _flat([list(map(number.__getitem__, terms)) for terms in found])


def _flat(lists: list[list[int]]) -> Tokens:
    offsets = np.concatenate([[0], np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))]).astype(np.int64)
    ids = np.fromiter((one for each in lists for one in each), np.int32, int(offsets[-1]))
    return Tokens(ids, offsets)
