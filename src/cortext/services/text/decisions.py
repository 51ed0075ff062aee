"""The words that announce, order or refuse something, and how much a text is about a topic.

No model is used. The words are in one table for summaries, digests and decisions: in English, German, French,
Spanish, Japanese and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from cortext.index.search.words import FUNCTION_WORDS, STOP, WORD, function_words
from cortext.services.text.sentences import is_cjk, sentences, terms

# The start of a word or phrase → the pattern that says that something was decided. Without a pattern it only sounds
# like a decision (a rule, a plan, advice): enough for a list of findings, not for "this was decided".
_PHRASES: dict[str, str] = {
    # English
    "decid": r"(?<!to )(?<!be )decided",
    "decision:": "decision:",
    "decision is:": "decision is:",
    "agreed": "agreed",
    "settled": "settled",
    "going with": "going with",
    "go with": r"(?:i'll|we'll|let's|we) go with",
    "we keep": "we keep",
    "we drop": "we drop",
    "chose": "chosen?",
    "leaning": "leaning",
    "convinced": "convinced",
    "conclu": r"conclu(?:ded|sion)",
    "root cause": "root cause",
    "turns out": "turns out",
    "turned out": "turned out",
    "fixed": r"(?:is|are|was|now|been) fixed",
    "works now": "works now",
    "we'll": "",
    "we will": "",
    "let's": "",
    "instead of": "",
    "must": "",
    "never": "",
    "always": "",
    "use ": "",
    # German
    "entschied": "entschieden",
    "entscheiden uns": "entscheiden uns",
    "beschlossen": "beschlossen",
    "vereinbart": "vereinbart",
    "einigen uns": "einigen uns",
    "geeinigt": "geeinigt",
    "nehmen wir": "nehmen wir",
    "machen wir": "machen wir",
    "ursache": "ursache",
    "behoben": "behoben",
    "entschloss": "",
    "statt ": "",
    # French
    "décid": "décidé",
    "convenu": "convenu",
    "choisi": "choisi",
    # Spanish
    "decidi": r"decidi(?:do|mos)",
    "acordamos": "acordamos",
    "elegimos": "elegimos",
}
# In scripts without spaces there are no word starts, so these match anywhere.
_CHARACTERS = {
    **{phrase: phrase for phrase in ("決定", "決め", "決ま", "采用", "採用", "决定", "同意")},
    "原因": "原因[は是]",
}

STEMS = tuple(_PHRASES)
CHARACTERS = tuple(_CHARACTERS)
DECIDING = tuple(stem for stem, pattern in (_PHRASES | _CHARACTERS).items() if pattern)
_DECIDED = re.compile(
    rf"\b(?:{'|'.join(filter(None, _PHRASES.values()))})(?!\w)|{'|'.join(_CHARACTERS.values())}", re.IGNORECASE
)
NEGATED = re.compile(r"\b(?:not|nobody|no one|never|nothing|kein\w*|nicht|niemand|nie)\b|n't\b|[没不未]", re.IGNORECASE)

SHORT = 40  # a decision of fewer characters ("Agreed.") is shown with what it answers
QUESTION = ("?", "？")
# How the model announces its next step.
NEXT_STEP = re.compile(
    r"(?:now|next|first|then|so|ok(?:ay)?|good|great|perfect|let me|let's|i'll|i will|i'm going|i need to)\b",
    re.IGNORECASE,
)
ASKS_USER = re.compile(r"ask_?user|askuser|question|elicit", re.IGNORECASE)  # a call with which a model asks the user
# What settles a question if the sentence names its subject: "we'll use the disk", "disk it is".
_CHOICE = re.compile(
    r"\b(?:we'll|we’ll|we will|i'll|i’ll|let's|let’s)\s+(?:use|take|keep|drop|stay with|stick to)\b"
    r"|\w\s+it is\b\s*(?:[.!]|$)",
    re.IGNORECASE,
)

# The beginning of a prompt that refuses what the agent proposed.
_NO = re.compile(
    r"\s*(?:no|nope|nah|not that|rather not|please don't|don't|do not|undo|revert|nein|lieber nicht|bitte nicht|non"
    r"|mieux pas|mejor no)\b(?! (?:problem|worries|idea|question|doubt))|\s*(?:不要|不行|いいえ|いや)",
    re.IGNORECASE,
)
# A clause with one of these turns down what it names. A plain "not" mostly describes ("if it is not set").
_CHOOSING = r"(?:use|want|need|like|go|take|choose|pick|do|have|be|a|an|the)"
_TURNS_DOWN = re.compile(
    r"\b(?:no|never|neither|nor|without|against|avoid\w*|skip\w*|reject\w*|refus\w*|drop(?:s|ped|ping)?|discard\w*"
    r"|abandon\w*|rul(?:e|ed|es|ing) out|(?:is|are|was|were) out(?! of)|too much|overkill|instead of|rather than"
    r"|not (?:chosen|used|needed|wanted|allowed|an option|worth)|kein\w*|nicht|nie|ohne|statt|anstatt|verworfen|pas"
    r"|sans|jamais|au lieu d\w*|sin|nunca|en (?:lugar|vez) de)\b"
    rf"|\b(?:(?:do|does|did|will|would|should|can|must) not|\w+n['’]t) (?:\w+ly )?{_CHOOSING}\b"
    r"|^\s*(?:not|don['’]t|do not)\b"
    r"|[不没未別别]|ない|ません",
    re.IGNORECASE,
)
_NOT_REALLY = re.compile(
    r"\b(?:no (?:problem|worries|doubt|idea)|not (?:only|sure|yet)|(?:why|if) not)\b", re.IGNORECASE
)
_CLAUSES = re.compile(
    r"[,;:()\n]|[.!?](?=\s|$)|\s[-–—]\s|[，；。！？、：]"
    r"|\b(?:but|because|since|so that|aber|sondern|weil|mais|pero|porque)\b"
    r"|\b(?:and|und|et|y)\s(?=(?:no|not|never|without|don['’]t|use|take|keep|go|do|make|let|we|i|it|then|reject|drop"
    r"|refus|rul|kein|nicht|ohne|pas|sans|sin)\w*)"
    r"|(?=\b(?:instead of|rather than|without|anstatt|statt|ohne|au lieu d|sans|en lugar de|en vez de)\b)"
    r"|\s(?=(?:we|i|you) (?:should|could|will|would|can|need|want)\b)"
    r"|(?<! is)(?<! are)(?<! was)(?<! were)(?<! do)(?<! does)(?<! did)(?<! be)(?<! will)(?<!ould)(?<! can)(?<! must)"
    r"(?<! has)(?<! have)(?<!['’]s)\s(?=not\b)",
    re.IGNORECASE,
)
# What one asks for with an imperative.
VERBS = frozenset(
    re.findall(
        r"\w+",
        "add address adjust allow answer apply approve ask assign avoid backfill bring build bump call cancel change "
        "check choose clarify clean close collect combine commit compare complete configure confirm connect "
        "consolidate continue convert copy correct create cut decide define delete deploy describe detect disable "
        "discuss do document download drop edit embed emit enable encode enforce ensure evaluate execute expand "
        "explain export expose extend extract fetch file filter find finish fix follow force generate get give go "
        "handle have hide ignore implement import improve include increase inform inline inspect install integrate "
        "introduce investigate join keep launch leave let limit link list load lock log look lower maintain make mark "
        "mask measure mention merge migrate mock monitor move name normalize note notify omit open optimize override "
        "parse pass patch pause persist pick pin plan post prefer prepare print propose protect provide prune publish "
        "pull push put raise read rebase rebuild record recreate redo reduce refactor relax release remove rename "
        "reopen reorder repair repeat replace reply report require reset resize resolve respond restore resume retire "
        "retry return reuse revert review rewrite roll rotate run sanitize save say scan schedule search select send "
        "separate set settle ship shorten show sign simplify skip solve sort specify split squash start stay stick "
        "stop store strip submit substitute suggest summarize support suppress suspend swap switch sync tag take tell "
        "test tidy track transfer translate trigger trim try turn undo unify unpin update upgrade use validate verify "
        "wait watch wrap write",
    )
)
_WISHES = re.compile(
    r"\b(?:please|let['’]s|let us|(?:i|we)(?:['’]ll| will| want| need)"
    r"|(?:i|we)(?:['’]d| would) (?:like|love|prefer|rather|suggest)|should|must|(?:has|have|needs?) to|only|instead"
    r"|rather|prefer\w*|always|never|use|stick|go(?:ing)? (?:with|for)|i like|sounds? good"
    r"|(?:is|are) (?:fine|ok|good|better|best|out)|bitte|soll\w*|muss|müssen|nehmen|lieber|möchte\w*|il faut"
    r"|hay que)\b",
    re.IGNORECASE,
)
_RAISES = re.compile(
    r"\b(?:talk|discuss\w*|brainstorm\w*|consider\w*|wonder\w*|explain|compare|explore|research|describe|summari[sz]e"
    r"|think (?:about|through|of)|look(?:ing)? (?:at|into)|tell me|show me|(?:what|how) about|what if|not sure|maybe"
    r"|perhaps|might|could|options? (?:are|is|would)|pros and cons|question|idea|vielleicht|überleg\w*|peut-être"
    r"|quizás?)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:can|could|would|will) (?P<who>you|we)(?: (?:please|also|just|now|then))* (?P<verb>\w+)", re.IGNORECASE
)
_UNDECIDED = frozenset(("use", "go", "take", "have", "do"))  # verbs of "can we …?" that ask rather than order
_ASKING = frozenset(re.findall(r"\w+", "compare check discuss explain give investigate look read review say show tell"))
_COURTESY = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|yeah|yep|ah|oh|hmm|like|and|also|then|now|so|first|next|just|please)\b\W*)*", re.IGNORECASE
)
_SUGGESTS = re.compile(r"\W*consider \w+ing\b", re.IGNORECASE)


class Stance(NamedTuple):
    """The words of what a text is for, and of what it turns down."""

    wants: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()


def stance(text: str) -> Stance:
    """Return what a text is for and against, clause by clause."""
    wants, refuses = set[str](), set[str]()
    for clause in _CLAUSES.split(_NOT_REALLY.sub(" ", text)):
        rest, turned_down = _TURNS_DOWN.subn(" ", clause)
        (refuses if turned_down else wants).update(terms(rest))
    return Stance(frozenset(wants), frozenset(refuses))


def says_no(text: str) -> bool:
    """Whether a prompt refuses what was proposed before."""
    return _NO.match(text) is not None


def raises(sentence: str) -> bool:
    """Whether the sentence only brings something up."""
    return sentence.endswith(QUESTION) or _RAISES.search(sentence) is not None


def orders(sentence: str) -> bool:
    """Whether a user's sentence says what is to be, and does not only bring it up.

    Sentences of a language whose wishes are not known here count, unless they ask.
    """
    request = _REQUEST.search(sentence)
    if request is not None:
        verb, polite = request["verb"].casefold(), request["who"].casefold() == "you"
        if verb in VERBS - _ASKING and (polite or verb not in _UNDECIDED):
            return True
    if sentence.endswith(QUESTION):
        return "please" in sentence.casefold() and _RAISES.search(sentence) is None
    if states_decision(sentence) or chooses(sentence) or _SUGGESTS.match(sentence) or says_no(sentence):
        return True
    if _RAISES.search(sentence):
        return False
    clauses = [_COURTESY.sub("", clause, count=1).casefold() for clause in _CLAUSES.split(sentence)]
    if any(clause.partition(" ")[0] in VERBS - _ASKING for clause in clauses) or _WISHES.search(sentence):
        return True
    return is_cjk(sentence) or not FUNCTION_WORDS.isdisjoint(WORD.findall(sentence.casefold()))


def any_of(*patterns: str) -> re.Pattern[str]:
    """Return a pattern that matches where one of these does, in upper or lower case."""
    return re.compile("|".join(patterns), re.IGNORECASE)


# ── what a sentence rejects ──────────────────────────────────────────────────────────────────────────

START = (
    r"^(?:(?:ok(?:ay)?|yes|no|well|so|and|but|now|next|then|please|good|great|gut|ja|nein|jetzt|nun|dann|bitte|also"
    r"|oui|non|alors)[,.! ]+)*"
)
# What is named: without an article, up to the next clause.
THING = (
    r"(?:(?:to )?(?:use|using|use of|have|having|keep(?:ing)?|go with|the|a|an|our|any|der|die|das|den|dem"
    r"|eine[mnrs]?|ein|le|la|les|un|une) )*(?P<thing>[^,.;:!?()\"“”—\s][^,;:!?()\"“”—]{0,60}?)"
    r"(?=\s+(?:for|because|since|as|in|on|at|so|when|while|and|but|to|from|with|now|any ?more|here|instead|rather"
    r"|für|weil|bei|im|statt|und|aber|sondern|entschieden|verworfen|pour|car|parce|dans|et|mais)\b"
    r"|\s*(?:[,;:!?()\"“”—]|\.(?:\s|$)|$))"
)
# The words before what is rejected, and those that must follow it.
_REJECTS = tuple(
    (any_of(rf"(?:{before})\s+{THING}"), any_of(after))
    for before, after in (
        (r"\b(?:instead of|rather than|as opposed to|in place of|(?:an)?statt|anstelle von)", ""),
        (r"\b(?:au lieu d[eu']|plutôt que|en vez de|en lugar de)", ""),
        (r"\b(?:decided against|no longer|stop using|get rid of|gegen)", ""),
        (r"\b(?:we|i)(?:'ve| have| had)? (?:rejected|ruled out|abandoned)", ""),
        (rf"(?:{START}|\b(?:we|i|let's|let’s|we'll|we will)\s+)(?:drop(?:ped)?|discard(?:ed)?)", ""),
        (rf"(?:{START}|\b(?:we|i) )(?:will not|won't|don't|do not) (?:want|need|use|take|keep)", ""),
        (r"\bnot", r"^,?\s+but\b"),
        (r"\b(?:nicht|kein\w*)", r"^,?\s+sondern\b"),
        (r"\bpas", r"^,?\s+mais\b"),
    )
)
OUTRIGHT = any_of(
    r"\b(?:we|i)(?:'ve| have| had)? (?:rejected|ruled out|discarded|dropped|abandoned)\b",
    r"\b(?P<thing>[\w.+#-]+) (?:was|is|were|are|wurde|ist) (?:rejected|ruled out|verworfen)(?= because| since| as"
    r"| in favou?r|[.!]|$)",
)


def rejected_in(sentence: str) -> str:
    """Return what a sentence names as not chosen, in its own words; empty if it names nothing."""
    for before, after in _REJECTS:
        match = before.search(sentence)
        if match and after.search(sentence[match.end("thing") :]):
            return match["thing"].strip()
    outright = OUTRIGHT.search(sentence)
    return (outright["thing"] or "").strip() if outright else ""


# ── what it decides ──────────────────────────────────────────────────────────────────────────────────


def sounds_decided(text: str, stems: Sequence[str] = STEMS, characters: Sequence[str] = CHARACTERS) -> bool:
    """Whether the text has any of the words. (Not a regular expression, which would take ten times as long.)"""
    lowered = text.lower()
    for stem in stems:
        offset = lowered.find(stem)
        while offset > 0 and lowered[offset - 1].isalnum():  # only at the start of a word
            offset = lowered.find(stem, offset + 1)
        if offset >= 0:
            return True
    return any(phrase in lowered for phrase in characters)


def may_decide(text: str) -> bool:
    """Whether any sentence of the text may state a decision: a quick test before each sentence is judged."""
    return _DECIDED.search(text) is not None


def states_decision(sentence: str) -> bool:
    """Whether the sentence says that something was decided, and does not deny it."""
    found = _DECIDED.search(sentence)
    return found is not None and not NEGATED.search(sentence, max(0, found.start() - 24), found.start())


def chooses(sentence: str) -> bool:
    """Whether the sentence chooses something by its name; said by the user, that is a decision."""
    return _CHOICE.search(sentence) is not None and not sentence.endswith(QUESTION)


def topic_words(topic: str) -> frozenset[str]:
    """Return the significant words of a topic as prefixes: `decisions` also matches `decision`, `retries` `retry`."""
    words = WORD.findall(topic[:2000].casefold())
    empty = STOP | function_words(words)
    return frozenset(prefix(word) for word in words if word not in empty)


def prefix(word: str) -> str:
    """Return the beginning of a word, which its other forms share."""
    return word[: max(4, len(word) - (3 if word.endswith("ies") else 2))]


def decided_share(text: str, words: Collection[str]) -> float:
    """Return how much of a topic is in the sentence of this text that decides it, from 0 to 1; 0 if none does.

    A short sentence ("Agreed.") is about what the sentence before it says.
    """
    if not may_decide(text) and not _CHOICE.search(text):
        return 0.0
    best, before = 0.0, ""
    for sentence in sentences(text):
        if (states_decision(sentence) or _CHOICE.search(sentence)) and not sentence.endswith(QUESTION):
            about = f"{before} {sentence}" if len(sentence) < SHORT else sentence
            best = max(best, relevance(about, words))
        before = sentence
    return best


def relevance(sentence: str, words: Collection[str]) -> float:
    """Return the share of the topic's words that the sentence has."""
    if not words:
        return 0.0
    folded = sentence.casefold()
    own_words = WORD.findall(folded)
    # In scripts without spaces there are no word starts, so any position counts.
    hits = sum(
        any(own.startswith(word) for own in own_words) or (not word.isascii() and word in folded) for word in words
    )
    return hits / len(words)
