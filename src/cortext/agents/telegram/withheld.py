"""An error as a message for a chat: what happened, what to do from there, and nothing that belongs to this machine.

What a provider or the system said may contain addresses, our key or a part of it, and paths. None of them is sent.
Names of models stay, and so do ordinary words: an error that says nothing helps nobody.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable

from cortext.agents.assistant.commands import COMMANDS
from cortext.errors import CortextError, ModelError, ModelRefused, NoModel
from cortext.safety.secrets.masking import mask

# Advice for someone at a keyboard: a command, an option, an environment variable, the network.
_FOR_SHELL = re.compile(
    r"\b(?:cortext|aur|alfred|pip|npm|ollama|claude|gemini|codex)\b|--\w|\b[A-Z]+_[A-Z_]+\b|`"
    r"|\b(?:network|endpoint|the address)\b"
)
_CLAUSES = re.compile(r"\s*;\s*|\s*,?\s+(?:or|then)\s+|\s*,\s+")
_NAME = re.compile(r"[\w.-]+/[\w./:@+-]+")  # of a model: provider/name


def error_text(error: CortextError) -> str:
    """Return an error as a chat message."""
    if isinstance(error, NoModel):
        return "⚠ No model is available: it has to be set up on the command line. Your message is kept."
    lines = [f"⚠ {_capitalised(_message(error))}", _hint(error)]
    if isinstance(error, ModelError):
        lines.append("Your message is kept; /retry asks again.")
    return "\n".join(filter(None, lines))


def _message(error: CortextError) -> str:
    """Return what happened. If a key was refused, the rest of the sentence is about the key."""
    name, colon, rest = error.message.partition(": ")
    if not colon or not isinstance(error, ModelError) or not _NAME.fullmatch(name):
        return without_places(error.message)
    if isinstance(error, ModelRefused) and rest.startswith("the key was not accepted"):
        rest = "the key was not accepted"
    return f"{name}: {without_places(rest, [name, name.partition('/')[2]])}"


def _hint(error: CortextError) -> str:
    """Return the parts of the hint that help in a chat."""
    if not _FOR_SHELL.search(error.hint):
        return without_places(error.hint)
    clauses = (clause for clause in _CLAUSES.split(error.hint) if clause and not clause.startswith("if "))
    helpful = [without_places(clause) for clause in clauses if not _FOR_SHELL.search(clause)]
    return "; ".join(helpful) or "This has to be fixed on the command line."


def _capitalised(text: str) -> str:
    """Begin with a capital letter, unless the first word is a name."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


ADDRESS, PATH, KEY = "(address)", "(path)", "(key)"

# ── addresses ────────────────────────────────────────────────────────────────────────────────────────

_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]{0,30}://(?:[^\s\"'<>()\[\]]|\[[^\s\[\]]*\]?)+(?<![,;:.!?])|(?<![^\s\"'<>()])[^\s\"'<>()]+@[^\s\"'<>(),;]+(?<![:.!?])",
    re.IGNORECASE,
)
_IP4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\w)(?::\d+)?(?:/[^\s,;)\"']*)?")
_IP6 = re.compile(
    r"(?<![\w:.])\[(?P<inside>[0-9a-f:.]+(?:%\w+)?)\](?::\d+)?(?:/[^\s,;)\"']*)?"
    r"|(?<![\w:.])(?P<bare>[0-9a-f]*:[0-9a-f:]*:[0-9a-f:.]*)(?P<zone>%\w+)?(?![\w%])(?:/\d+)?",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?<![\w.-])(?P<name>(?:[\w-]+\.)+(?:[^\W\d_]{2,}|xn--[\w-]+|k[38]s))(?![\w-]|\.\w)(?::\d+)?(?:/[^\s,;)\"']*(?<![.:]))?"
)
_PORT = re.compile(r"(?<![\w.-])(?P<name>[a-z][\w.-]*):\d{2,5}\b(?!-\w)(?:/[^\s,;)\"']*)?", re.IGNORECASE)
# Words before a colon and a number that are no hosts.
_COUNTED = re.compile(
    r"(?:.*[_-])?(?:status|code|error|errno|http|line|column|position|limit|requested|tokens?|used|remaining|count|size"
    r"|length|timeout|after|retry|seconds|ms|at|index|version|max|min)",
    re.IGNORECASE,
)
# Dotted words that are no hosts: files, exceptions, versions, fields of a request.
_NO_HOST = re.compile(
    r"(?:.*\.)?[\w-]+\.(?:json|jsonl|yaml|toml|txt|gguf|bin|safetensors|log|pem|html|xml|csv|exe|dll|js|ts|cpp"
    r"|error|timeout|gaierror|\w*[a-z][A-Z]\w*|[A-Z]+[A-Z][a-z]\w*)"
    r"|v?\d+(?:\.\d+)+\.[a-z]+|v\d+\.[a-z]+"
    r"|(?:messages|contents|tools|input|choices|request|response|body|error|metadata|generation_config)\.[\w.]+"
    r"|[a-z]+\.[A-Z][a-z]+"  # the end of a sentence and the begin of the next
)

# ── paths ────────────────────────────────────────────────────────────────────────────────────────────

_START = r"(?:file:(?://)?(?=[\\/])|~\w*(?=[\\/])|\.{1,2}(?=[\\/])|[a-z]:(?=[\\/]))?"
_CHAR = r"(?:[^\s\\/:\"'<>|,;()]|(?<=\w)['’](?=\w)|\(\w*\))"
_PARTS = rf"(?:[\\/]+{_CHAR}+)"
_QUOTED = re.compile(
    rf"(?:(?<=\")(?P<a>{_START}[\\/][^\"\n]*)(?=\")"
    rf"|(?<=['`‘“«])(?P<b>{_START}[\\/].*?)(?=['`’”»](?!\w)))",
    re.IGNORECASE,
)
_PATH = re.compile(rf"(?<![\w/\\.)~]){_START}{_PARTS}+[\\/]*", re.IGNORECASE)
_NEXT = re.compile(rf" +(?P<word>{_CHAR}+{_PARTS}*[\\/]*)")
_FILE = re.compile(r"\w\.[a-z]\w{1,11}\.?\Z", re.IGNORECASE)
_LONGEST_NAME = 4  # words of a name with blanks
# With these the sentence goes on after a path.
_SENTENCE = re.compile(
    r"(?:is|are|was|were|has|have|had|does|did|do|can|cannot|could|will|would|must|should|may|not|no|or|for|because|but"
    r"|while|when|if|then|already|exist|exists|fail|failed|fails|return|returned|returns|gave|said|says|using|with|by|as|on|via|from|got|model|models)",
    re.IGNORECASE,
)
# A name of a model, or another path.
_ANEW = re.compile(
    r"(?:openai|anthropic|google|models/gemini|mistral(?:ai)?|meta(?:-llama)?|ollama|openrouter|deepseek(?:-ai)?|qwen|groq"
    r"|xai|x-ai|cohere|azure|bedrock|vertex|cli|together|accounts/fireworks|huggingface|lmstudio|vllm)[/-]"
    r"|~|\.{1,2}[\\/]|[A-Za-z]:[\\/]"
)
# One part after a slash that is no path: our commands, and units (30 requests /min).
_COMMAND = re.compile(
    rf"/(?:{'|'.join(command.name for command in COMMANDS)}|start|stop)(?:_\w+)?|/(?:s|sec|min|h|hour|day|month|1[KM])",
    re.IGNORECASE,
)

# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────

# A key that a provider echoes is often cut or starred, so that no rule for keys recognises it.
_MARKED = re.compile(
    r"\b(?:sk|pk|gsk|xai|hf|nvapi|pplx|csk|r8)[-_][\w*.…-]+|\bAIza[\w*.…-]+|(?<![^\s\"'()*])[^\s\"'()*]*\*{3,}[^\s\"'()]*"
)
_LABELLED = re.compile(
    r"(?<![a-z])(?P<label>(?:keys?|token|secret|password|credentials?|bearer)(?![a-z])[\s:=(\"'`\[“]*"
    r"(?:(?:is|was|provided|given|used|supplied|of|value|ending|ends|starting|starts|beginning|in|with|id)\b[\s:=(\"'`\[“]*)*)"
    r"(?P<word>[\w-]+(?:(?:\.{2,}|…)[\w-]*)?|(?:\.{2,}|…)[\w-]+)",
    re.IGNORECASE,
)
_PART_OF_KEY = re.compile(r"\b(?:ending|ends|starting|starts|beginning) (?:in|with)\b", re.IGNORECASE)
_CUT = re.compile(r"(?<![\w-])[\w-]{2,}(?:\.{3}|…)[\w-]{2,}")
_LONG = re.compile(r"(?<![\w.-])[\w-]{16,}")
# What a name of a model, a date or a word consists of: letters in one case or Capitals, digits, a word with a number.
_READABLE = re.compile(
    r"[a-z]{1,24}|[A-Z]{1,24}|[a-z]*(?:[A-Z]{1,5}[a-z]{2,})+[A-Z]{0,4}|\d{1,8}|(?:[a-z]+|[A-Z]{0,3}[a-z]*)\d{1,4}[A-Za-z]{0,2}"
    r"|\w{1,6}"
)


def without_places(text: str, names: Iterable[str] = ()) -> str:
    """Return the text with a word instead of each address, path and key; `names` (of models) stay as they are."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\ue000{len(kept) - 1}\ue001"

    text = mask(text).text.replace("\ue000", "").replace("\ue001", "")
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", keep, text, flags=re.IGNORECASE)
    text = _QUOTED.sub(lambda match: match[0] if _COMMAND.fullmatch(match[0]) else PATH, text)
    text = _without_paths(_URL.sub(lambda match: match[0] if match[0].lower().startswith("file:") else ADDRESS, text))
    text = _IP4.sub(ADDRESS, _IP6.sub(_address, text))
    text = _PORT.sub(_unless(_COUNTED, ADDRESS), _HOST.sub(_unless(_NO_HOST, ADDRESS), text))
    text = _without_keys(text).replace(f" ({ADDRESS})", "")
    return re.sub("\ue000(\\d+)\ue001", lambda match: kept[int(match[1])], text)


def _unless(ordinary: re.Pattern[str], instead: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match[0] if ordinary.fullmatch(match["name"]) else instead


def _address(match: re.Match[str]) -> str:
    """Return the word for an IPv6 address, and anything else, such as a time, unchanged."""
    found = match["inside"] or match["bare"]
    address = found.partition("%")[0].rstrip(".")
    if match["bare"] and address.endswith(":") and not address.endswith("::"):
        address = address[:-1]
    try:
        number = int(ipaddress.IPv6Address(address))
    except ValueError:
        return match[0]
    return ADDRESS + found[len(address) :] * bool(match["bare"]) if number else match[0]


def _without_paths(text: str) -> str:
    pieces: list[str] = []
    end = 0
    for match in _PATH.finditer(text):
        if match.start() < end or _COMMAND.fullmatch(match[0].rstrip(".?!")):
            continue
        pieces += [text[end : match.start()], PATH]
        end = _end_of_path(text, match.start(), match.end())
    return "".join([*pieces, text[end:]])


def _end_of_path(text: str, start: int, end: int) -> int:
    """Return where a path ends.

    A name with blanks goes on with a capital, to a slash, to the ending of a file, or to the colon before the reason.
    """
    at, words = end, 0
    while not _FILE.search(text[start:end]) and words < _LONGEST_NAME and (following := _NEXT.match(text, at)):
        word = following["word"]
        if _SENTENCE.fullmatch(word) or _ANEW.match(word):
            break
        at, words = following.end(), words + 1
        before_reason = text.startswith(":", at) and all(char.isalnum() or char in " -_" for char in text[end:at])
        if (
            before_reason
            or "/" in word
            or "\\" in word
            or _FILE.search(word)
            or (at - len(following[0]) == end and word.istitle())
        ):
            end, words = at, 0
    return end


def _without_keys(text: str) -> str:
    text = _MARKED.sub(KEY, text)
    text = _LABELLED.sub(lambda match: match["label"] + KEY if _is_key(match) else match[0], text)
    text = _CUT.sub(lambda match: match[0] if match[0].islower() and match[0].replace(".", "").isalpha() else KEY, text)
    return _LONG.sub(lambda match: match[0] if _is_readable(match[0]) else KEY, text)


def _is_key(labelled: re.Match[str]) -> bool:
    """Whether the word after "key" or "token" is one: not an ordinary word, and not a number."""
    word = labelled["word"]
    if _PART_OF_KEY.search(labelled["label"]) or "…" in word or ".." in word:
        return not word.islower() or not word.isalpha()
    letters = sum(char.isalpha() for char in word)
    return len(word) >= 6 and (0 < letters < len(word.replace("-", "").replace("_", "")) or not _is_readable(word))


def _is_readable(word: str) -> bool:
    return all(_READABLE.fullmatch(part) for part in re.split("[-_]+", word) if part)
