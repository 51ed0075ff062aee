"""What a word is; the same rules apply to indexing and to queries.

Words consist of letters and digits; everything else (also `_`, `/` and `.`) separates them, so the pieces of an
identifier or a path are adjacent words. camelCase is indexed whole and in pieces. Scripts written without spaces are
indexed character by character with positions, so any part of such a text is found as a run of characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from cortext.model.message import Message

LONGEST_WORD = 64  # longer ones are keys, hashes and base64 that no one types
LONGEST_TERM = 256  # a longer term stands for a word that is not indexed
LONGEST_TEXT = 200_000  # characters of a message that are indexed
LONGEST_CALL = 4_000  # characters of a tool call's arguments that are indexed

WORD = re.compile(r"[^\W_]+")
# Thai to Khmer, Kana, Han, Hangul, and their Unicode extensions.
_SIGN_CLASS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
SIGNS = re.compile(f"[{_SIGN_CLASS}]+")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_CAMEL_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# So frequent that they carry no information; dropped from a query unless it has no other words.
STOP = frozenset(
    re.findall(
        "[a-z]+",
        "a about after again all also am an and any are as at be because been before being but by can could did do "
        "does doing done down for from further get got had has have having he her here hers him his how i if in into "
        "is it its just let like may me might more most my no nor not of off on once only or other our out over own "
        "please shall she should so some such than that the their them then there these they this those through to "
        "too under until up us very was we were what when where which while who whom whose why will with would you "
        "your d ll m re s t ve don didn doesn isn wasn aren won",
    )
)

# The same in other languages, except for words that are something else in English or code ("comment", "die", "ci").
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "aber alle als auch auf aus bei bist dann dass dem denn der dies diese dieser dieses doch dort durch ein eine "
        "einem einen einer eines er für gegen haben habe hatte hatten hier ich ihr ihre ist ja jetzt kann kein keine "
        "können mit muss nach nicht noch nur ob oder ohne sehr sein seine sich sie sind soll über um und uns unser "
        "unter viel vom von vor wann warum weil welche welcher welches wenn wer werden wie wieder wir wird wo wofür "
        "wogegen wohin womit worauf worüber wozu wurde wurden zu zum zur zwischen afin ainsi alors après au aux avec "
        "avant avoir avons avez ce cela ces cet cette ceux chez dans de depuis donc dont elle elles en encore entre "
        "est était et être eux faut ici il ils je la là le les leur leurs lors lui mais même mon ne notre nous ont ou "
        "où pendant peut pour pourquoi quand que quel quelle quelles quels qui quoi qu sa sans ses sont sous ta tes "
        "toi tous tout toute toutes très tu un une vos votre vous algo como cual cuando cuándo cómo del desde donde "
        "dónde ella ellos eran eres esa ese eso esta está están este esto estos fue hasta las lo los más muy nada "
        "nosotros para pero por porque qué quien quién sobre sus también tiene todos una uno unos ya che chi cosa dei "
        "della delle di dove gli hanno ho loro nel nella perché più quale quando quello questa questo sono het een "
        "niet maar naar ook waar waarom wanneer wat welke zijn heeft hebben hoe worden wordt não uma foi ele ela isso "
        "são seu também pelo pela",
    )
)


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split(" "))


# Function words of a language that are something else in English or code, and words by which that language is known.
_GERMAN = (
    _listed("das den des die es im am gab gibt gemacht hat mir war man was wo so als bin bis da ins wen"),
    _listed(
        "aber auch auf aus bei dem denn der diese dieser dieses durch eine einem einen einer für haben ich ist kann "
        "können mit nach nicht noch oder sich sind über und uns unser unter von wann warum welche welcher wenn werden "
        "wie wir wird wurde wurden zu zum zur zwischen ohne gegen beim vom kein keine weil "
        "habe hatte hatten heute gestern vorgestern letzte letzten letzter"
    ),
)
_FRENCH = (
    _listed("à des du sur par propos comment son on pas plus a au si ma me te se sa va fait faire"),
    _listed(
        "après avec avons avez cette ces dans depuis elle elles est était et être il ils je la le les leur mais même "
        "notre nous ont où pendant peut pour pourquoi quand quel quelle quelles quels qui quoi sont sous tous tout "
        "toute très une vos votre vous aujourd dernier dernière"
    ),
)


def function_words(words: Collection[str]) -> frozenset[str]:
    """Return the function words of other languages; the ambiguous ones only of a language that these words are in."""
    found = FUNCTION_WORDS
    for ambiguous, known_by in (_GERMAN, _FRENCH):
        if not known_by.isdisjoint(words):
            found |= ambiguous
    return found


def is_french(words: Collection[str]) -> bool:
    """Whether these words are rather French than German, by their function words."""
    french, german = (sum(word in known or word in other for word in words) for other, known in (_FRENCH, _GERMAN))
    return french > german


def searchable(message: Message) -> str:
    """Return the text of a message as search sees it: what was said, then the tool calls."""
    text = message.text
    if message.parts:
        calls = [f"{part.name} {_flat(part.input)}" for part in message.parts if part.type == "tool_call"]
        if calls:
            text = "\n".join([text, *calls] if text else calls)
    return text[:LONGEST_TEXT]


def _flat(value: object, room: int = LONGEST_CALL) -> str:
    """Return the strings and numbers in the arguments of a tool call, without the JSON syntax."""
    if isinstance(value, str):
        return value[:room]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        pieces: list[str] = []
        for item in value:
            pieces.append(_flat(item, room))
            room -= len(pieces[-1]) + 1
            if room <= 0:
                break
        return " ".join(pieces)
    return "" if value is None or isinstance(value, bool) else str(value)


# Bytes beyond ASCII stay: they belong to words of texts that were already split by Unicode rules.
BLANKS = bytes(code if code > 127 or chr(code).isalnum() else 32 for code in range(256))


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return plain_words(text) if text.isascii() else WORD.findall(text)


def plain_words(text: str) -> list[str]:
    """Return the words of an ASCII text; five times faster than the pattern."""
    return text.encode("ascii").translate(BLANKS).decode("ascii").split()


def camel_pieces(word: str) -> list[str]:
    """Split `parseHTTPReply2` into parse, HTTP, Reply, 2; empty if there is only one piece."""
    if word.islower() or not _CAMEL.search(word):
        return []
    pieces = _CAMEL_PIECE.findall(word)
    return pieces if len(pieces) > 1 else []


# Signs inside a word, an option, or letters and digits: no word of a sentence.
_THING = re.compile(r"\w[_./:\\@#]+\w|^--\w|[^\W\d_]\d|\d[^\W\d_]")
_AMOUNT = re.compile(r"\d+(?::\d+)*[a-z]{0,3}", re.IGNORECASE)  # "10th", "1990s", "10:30": words of a sentence
_KEBAB = re.compile(r"[^\W\d_]\w*(?:-\w+)+")
_NAME = re.compile(r"\w[\w-]*")
_LINE = re.compile(r"(?::\d+)+$")
_AROUND = "`'\"<>[](){}"
LONGEST_AFFIX = 3  # characters of "e.g", "1st" and their like


def is_thing(text: str) -> bool:
    """Whether a word is an identifier, a path, an option, a version, a hash or an address, and so one as a whole."""
    if len(text) <= LONGEST_AFFIX or SIGNS.search(text) or _AMOUNT.fullmatch(text):
        return False
    return bool(_THING.search(text) or camel_pieces(text) or _is_kebab(text))


def _is_kebab(text: str) -> bool:
    """Whether this is a name with hyphens: `no-shadow-branch`, `sha-256`, but not "cursor-based" or "end-to-end"."""
    if not _KEBAB.fullmatch(text):
        return False
    _, *between, last = text.lower().split("-")
    return STOP.isdisjoint(between) if between else last.isdecimal()


def spellings(thing: str) -> set[str]:
    """Return `parseReply` and `parse_reply` as they are among the words of a text, each between blanks."""
    pieces = words_of(" ".join(camel_pieces(thing) or [thing]).lower())
    return {f" {' '.join(words_of(thing.lower()))} ", f" {' '.join(pieces)} ", f" {''.join(pieces)} "}


def is_written_in(thing: str, text: str, *, begins: bool = False) -> bool:
    """Whether a text has a thing as it is written, not only its words in a row.

    An identifier may be spelled in another way, and a path need not be followed by the line (`pool.go:88`). With
    `begins`, the end of the thing may be missing.
    """
    if _NAME.fullmatch(thing):
        row = f" {' '.join(words_of(text.lower()))} "
        return any((one[:-1] if begins else one) in row for one in spellings(thing))
    sought = _LINE.sub("", _folded(thing.strip(_AROUND)).removeprefix("./").rstrip("/"))
    return sought in _folded(text)


def _folded(text: str) -> str:
    return " ".join(text.casefold().replace("\\", "/").split())


def without_signs(text: str) -> tuple[str, str]:
    """Return a text without its unspaced runs, and those runs joined by dots."""
    rows = SIGNS.findall(text)
    return (SIGNS.sub(" ", text), ".".join(rows)) if rows else (text, "")


def clean(text: str) -> str:
    """Return text that the index accepts: a lone surrogate is replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


Take = Callable[[str], list[str]]

MOST_KNOWN = 1_000_000  # words that are cached while indexing
GAP = "x" * LONGEST_TERM  # stands for a word that is not indexed: the index drops it but counts its position


class Vocabulary:
    """The words seen so far, with their terms.

    `split` and `stems` are the index's own functions: how it splits a text, and which terms it makes of the words.
    """

    def __init__(self, split: Take, stems: Take) -> None:
        self.fresh: set[str] = set()  # words not yet in the word list, in lower case; the writer empties it
        self._split, self._stems = split, stems
        self._known: dict[str, str] = {}
        self._camel: dict[str, str] = {}

    def terms(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """Return the terms of each text, separated by spaces, and the terms of its camelCase pieces."""
        found: list[tuple[str, str]] = []
        for text in texts:
            words = self._words(text)
            distinct = dict.fromkeys(words)
            new = [word for word in distinct if word not in self._known and len(word.encode()) < LONGEST_WORD]
            for word, (term, pieces) in zip(new, self.met(new) if new else (), strict=True):
                self._known[word] = term
                if pieces:
                    self._camel[word] = pieces
            camel = [self._camel[word] for word in distinct if word in self._camel]
            found.append((" ".join([self._known.get(word, GAP) for word in words]), " ".join(camel)))
        return found

    def _words(self, text: str) -> list[str]:
        return plain_words(text) if text.isascii() else self._split(text)

    def met(self, words: Sequence[str]) -> list[tuple[str, str]]:
        """Register new words and return, for each, its term and the terms of its pieces."""
        self.fresh.update(" ".join(words).lower().split(" "))
        pieces = [camel_pieces(word) for word in words]
        parts = iter(self._stemmed([piece for group in pieces for piece in group]))
        return [
            (term, " ".join([next(parts) for _ in group]) if group else "")
            for term, group in zip(self._stemmed(words), pieces, strict=True)
        ]

    def _stemmed(self, words: Sequence[str]) -> list[str]:
        """Return the term of each word: in one call, or one by one if a word does not have exactly one term."""
        terms = self._stems(" ".join(words))
        return terms if len(terms) == len(words) else [(self._stems(word) or [GAP])[0] for word in words]
