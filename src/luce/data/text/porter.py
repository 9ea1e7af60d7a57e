"""The stemmer of Porter (1980) with the two endings that its author changed later, as Lucene's `porter_stem` has it."""

from __future__ import annotations

from functools import lru_cache

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


def _double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _kinds(word)[-1] == "c"


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
                elif _double(word):
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
