"""The sentences of a message, without code, tables, logs and markup."""

from __future__ import annotations

import re

from cortext.model.asides import COMMAND_FORMS
from cortext.model.message import Message, joined_text

LONGEST = 400  # characters; a longer "sentence" was pasted

_FENCE = re.compile(r"^[ >]*(```|~~~)")
# Blocks that tools insert into a prompt, which the user did not write.
MARKUP = re.compile(r"<(?P<tag>[a-z][\w-]{2,40})(?: [^<>]{0,200})?>.{0,20000}?</(?P=tag)>", re.DOTALL)
GREETING = re.compile(
    r"(?:hi|hey|hello|good (?:morning|afternoon|evening)|hallo|moin|guten (?:tag|morgen|abend)|bonjour|hola|yo"
    r"|ok(?:ay)?|yes|no|thanks?(?: you)?|go on|continue|weiter|test|ping)(?:[ ,]+\w+)?\W*",
    re.IGNORECASE,
)
# What tools write in the user's name when the user wrote nothing.
NOTICE = re.compile(r"\[Request interrupted|Operation stopped|\[RESUMED CONVERSATION\]|Caveat: ")
_HEADING = re.compile(r"^#{1,3} +(?:plan: *)?(.{3,120}?)[.:]*$", re.IGNORECASE | re.MULTILINE)
_BULLET = re.compile(r"^(?:[-*+•]|\d{1,3}[.)]|\[[ xX]\])\s+(?:\[[ xX]\]\s+)?")
_NOT_PROSE = re.compile(
    r"\||[$#%] |#{1,6}\s|>>> |\.\.\. |@@ |[+-]{3} |diff --git |[├└│┌]|[-=_*~]{3,}$|\s*at \S+\(|Traceback |File \"|</?\w"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[?\d\d:\d\d:\d\d|\[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL)\b|[{}\[\]();]+,?$"
    r"|\[Request interrupted|\[Image|Caveat: |!\["
)
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]*_`]{0,3}\s+|(?<=[。！？])[」』）]?")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|no|nr|mr|mrs|ms|dr|st|z\.\s?b|d\.\s?h|u\.\s?a|bzw|ca|[a-z]|\d{1,3})\.$",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"\*\*|__(?=\w)|(?<=\w)__|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])")
_SYMBOLS = re.compile(r"[^\w ]|_")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")

_WORD = re.compile(r"[^\W_]+(?:[-'’_./][^\W_]+)*")
_CJK_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]+")
# A slash command in the syntax of any tool, but not a path.
COMMAND = re.compile(rf"^\s*(?:{COMMAND_FORMS}|/[A-Za-z][\w.:-]*)(?:\s+|$)")
# Words without a topic: English, German, French, Spanish.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the a an and or but if then than that this these those it its is are was were be been being to of in on at by"
        " for with from as about into over after before not no so do does did has have had will would can could should"
        " may might i you he she we they me him her us them my your his our their what which who when where why how"
        " there here just also very more most some any all one two only even still now out up down off too because"
        " while let get got like der die das den dem des ein eine einen einem einer und oder aber wenn dann als wie ist"
        " sind war waren sein haben hat hatte wird werden zu von im auf mit für aus nach bei nicht kein keine auch nur"
        " noch schon ich du er sie es wir ihr mich dich uns mir dir wer wo man le la les un une et ou mais est sont de"
        " du en pour avec pas que qui il elle nous vous je tu el los las una y o pero son del por con su se lo",
    )
)


def is_cjk(text: str) -> bool:
    """Whether the text is mostly in a script without spaces between words."""
    return not text.isascii() and 3 * len(_CJK.findall(text)) > len(text)


def sentences(text: str, most: int = 8_000) -> list[str]:
    """Return the sentences in order, verbatim except for white space, emphasis and list bullets.

    Of a text of more than `most` characters, only the beginning and the end are read.
    """
    if len(text) > most:
        text = f"{_without_last(text[: most // 2])}\n\n{_without_first(text[-most // 2 :])}"
    if "</" in text:
        text = MARKUP.sub("\n", text)
    return [sentence for paragraph in _paragraphs(text) for sentence in _split(paragraph)]


def with_heading(text: str) -> str:
    """Return a prompt in which the heading of what was pasted, as of a plan, is a sentence like others."""
    return _HEADING.sub(r"\1.", text, count=1)


def terms(text: str) -> frozenset[str]:
    """Return the words of a text, without common ones; pairs of characters in a script without spaces."""
    if text.isascii():
        return frozenset(w for w in _WORD.findall(text.lower()) if len(w) > 2 or w.isdigit()) - _COMMON
    found: set[str] = set()
    for run in _CJK_RUN.findall(text):
        found.update(run[i : i + 2] for i in range(len(run) - 1))
    plain = _CJK_RUN.sub(" ", text).lower() if found else text.lower()
    found.update(w for w in _WORD.findall(plain) if len(w) > 2 or w.isdigit())
    return frozenset(found) - _COMMON


def text_of(message: Message) -> str:
    """Return the text of a message, without its other parts."""
    return message.content or joined_text(message.parts or [])


def _without_last(text: str) -> str:
    """Return the text without its last sentence, which is incomplete."""
    ends = [end.end() for end in _END.finditer(text)]
    return text[: max(ends[-1] if ends else 0, text.rfind("\n")) or len(text)]


def _without_first(text: str) -> str:
    """Return the text without its first sentence, which is incomplete."""
    end, newline = _END.search(text), text.find("\n")
    starts = [offset for offset in (end.end() if end else -1, newline) if offset >= 0]
    return text[min(starts) :] if starts else text


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs: a list item is one of its own, and lines that were wrapped are joined."""
    found: list[str] = []
    fenced = continues = False
    for raw in text.split("\n"):
        if _FENCE.match(raw):
            fenced, continues = not fenced, False
            continue
        line = raw.strip().lstrip("> ")
        if fenced or not line or (raw.startswith(("    ", "\t")) and not _BULLET.match(line)) or _NOT_PROSE.match(line):
            continues = False
            continue
        item = _BULLET.match(line)
        if continues and not item and not line.startswith("**"):
            found[-1] += line if _CJK.match(line[0]) else f" {line}"
        else:
            found.append(line[item.end() :] if item else line)
        continues = len(line) >= 60 and line[-1] not in ".!?:。！？："
    return found


def _split(paragraph: str) -> list[str]:
    paragraph = " ".join(_EMPHASIS.sub("", paragraph).split())
    found: list[str] = []
    offset, unfinished = 0, ""
    for end in _END.finditer(paragraph):
        sentence = unfinished + paragraph[offset : end.end()]
        offset = end.end()
        if _ABBREVIATION.search(sentence[-16:].rstrip()):
            unfinished = sentence
            continue
        unfinished = ""
        found.append(sentence.strip())
    found.append((unfinished + paragraph[offset:]).strip())
    return [sentence for sentence in found if _is_prose(sentence)]


def _is_prose(sentence: str) -> bool:
    """Whether the length is that of a sentence, and few characters are symbols."""
    if not 2 <= len(sentence) <= LONGEST:
        return False
    return len(_SYMBOLS.findall(sentence)) <= 0.25 * len(sentence)
