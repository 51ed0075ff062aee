"""The calls that a model can make: a struct for each tool.

Its docstring is the tool's description for the model; its schema is generated from the fields, and a call is decoded
into it. Models are careless with types, so "5", 5.0 and 500 are accepted for a limit of at most 50. Arguments that are
missing, unknown or of another type are refused with a message that helps the model to correct itself.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, inspect

from cortext.errors import UsageError
from cortext.faces.mcp import answers
from cortext.model.query import FILTERS, check_filters, of_sessions

_LARGEST = 10**9
_MOST_IDS = 100
PER_SESSION = 10  # messages of one session at most: the best of every session come first, and as many as fit

Query = Annotated[str, Meta(description="what to look for")]
Topic = Annotated[str, Meta(description="the topic, in a few words")]
Page = Annotated[str, Meta(description="for the next page: the next_cursor of the previous answer")]
LeftOut = Annotated[list[str], Meta(description="ids of sessions to leave out, such as the current one")]

_NAMED = "the session's id or a prefix of it, its number (014), or its row in the last list (3)"
_RANGE = re.compile(r"\s*(?:\.\.+|…|\bto\b|\buntil\b|/|,|–|—)\s*", re.IGNORECASE)
_LAST = re.compile(r"(?:the )?(?:last|past|previous)\s+(?:(\d{1,4})\s+)?(hour|day|week|month|year)s?", re.IGNORECASE)
_UNIT = {"hour": "h", "day": "d", "week": "w", "month": "m", "year": "y"}
_BEGIN = ("after", "from", "start", "since", "begin")
_END = ("before", "to", "end", "until")


class ToolArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call, without the filters: see `arguments_of`."""


class SearchWorkspace(ToolArguments, frozen=True):
    """Find what was said in the conversations of this workspace, by words and by meaning. Returns sessions with the
    matching messages. The query may contain "a phrase", +required and -excluded words."""

    query: Query
    date_range: Annotated[
        str, Meta(description="when: 2026-11-01..2026-11-15, 2026-11, yesterday, 7d, 2w, last month")
    ] = ""
    limit: Annotated[int, Meta(description="how many sessions", ge=1, le=50)] = 10
    cursor: Page = ""
    leave_out: LeftOut = []


class GetContext(ToolArguments, frozen=True):
    """Get what earlier conversations (of any tool) say about a topic: the best passages of all of them, as many as fit,
    by session and with dates. Use it before working on something that has a history."""

    topic: Topic
    max_results: Annotated[
        int, Meta(description="at most this many passages; by default as many as fit", ge=1, le=100)
    ] = 100
    cursor: Page = ""
    leave_out: LeftOut = []


class GetDecisionHistory(ToolArguments, frozen=True):
    """Get the decisions about a topic from earlier conversations, word for word, oldest first: who settled each (user,
    agreed, model), when and where, what was rejected, and whether a later one reversed it. Use it before proposing to
    change something that may have been decided."""

    topic: Topic
    cursor: Page = ""
    leave_out: LeftOut = []


class ListSessions(ToolArguments, frozen=True):
    """List the stored sessions of every tool, most recently active first."""

    limit: Annotated[int, Meta(description="how many sessions", ge=1, le=100)] = 20
    cursor: Page = ""


class GetSession(ToolArguments, frozen=True):
    """Read the messages of a session, word for word, from any message on; secrets are masked. Long sessions come in
    pages: continue with the start (and offset) that the answer names."""

    id: Annotated[str, Meta(description=_NAMED)]
    start: Annotated[
        int, Meta(description="the number of the first message; -20 means the last 20", ge=-_LARGEST, le=_LARGEST)
    ] = 0
    limit: Annotated[int, Meta(description="at most this many messages", ge=1, le=500)] = 50
    offset: Annotated[
        int, Meta(description="the character to start at in the first message, if that is very long", ge=0, le=_LARGEST)
    ] = 0


class SearchSessions(ToolArguments, frozen=True):
    """Find what was said in every stored session: all workspaces, all AI tools, agents and chats. Returns sessions
    with the matching messages."""

    query: Query
    top_k: Annotated[int, Meta(description="how many sessions", ge=1, le=50)] = 5
    messages_per_session: Annotated[
        int, Meta(description="at most this many messages per session; by default as many as fit", ge=1, le=10)
    ] = PER_SESSION
    cursor: Page = ""
    leave_out: LeftOut = []


class WhyLine(ToolArguments, frozen=True):
    """Find the conversation behind a line of this project, or behind a commit: what the user asked for, what was
    decided, and the message of the edit. Edits are compared with git's history by their content. Use it before you
    change code whose reason is not obvious. Give a file (and a line), or a commit."""

    file: Annotated[str, Meta(description="the file, relative to the current folder")] = ""
    line: Annotated[int, Meta(description="the number of the line; 0: the whole file", ge=0, le=_LARGEST)] = 0
    commit: Annotated[str, Meta(description="a commit, instead of a file")] = ""


class TouchedFile(ToolArguments, frozen=True):
    """List the conversations that read or changed a file of this project, under any name it had, the latest first."""

    file: Annotated[str, Meta(description="the file, relative to the current folder")]
    changed: Annotated[bool, Meta(description="only conversations that changed it")] = False
    cursor: Page = ""


class SaveSession(ToolArguments, frozen=True):
    """Capture what was said last, update title and summary, and commit the conversation to git. Its status does not
    change. Saving twice changes nothing. Of what you say, a line with a name, path, number or quotation that is not in
    the conversation is dropped."""

    id: Annotated[str, Meta(description=f"{_NAMED}; default: the active conversation of this workspace")] = ""
    summary: Annotated[str, Meta(description="one or two sentences: where things stand; default: an extract")] = ""
    goal: Annotated[str, Meta(description="what the user wants")] = ""
    decided: Annotated[str, Meta(description="what the user decided and why, a line each")] = ""
    open: Annotated[str, Meta(description="what is open, a line each")] = ""
    next: Annotated[str, Meta(description="the next step")] = ""


class ResumeSession(ToolArguments, frozen=True):
    """Continue an earlier conversation in this chat: returns its command, its context and its newest messages. If
    cortext knows this chat, the chat is attached, so that what is said from now on is stored in that conversation
    (the answer says so). Without an id, lists the conversations that can be resumed."""

    id: Annotated[str, Meta(description=f"{_NAMED}; or words from its title")] = ""
    force: Annotated[bool, Meta(description="resume it even if it is completed: ask the user first")] = False


class Spec(msgspec.Struct, frozen=True):
    """A tool as it is described to clients."""

    title: str
    call: type[ToolArguments]
    answer: type[msgspec.Struct]
    read_only: bool = True
    filters: str = ""  # LIST, SEARCH: those of sessions, or also those of messages; empty: none
    without: tuple[str, ...] = ()  # filters that it does not take: a model reads every description in every chat


LIST, SEARCH = "list", "search"
_RARE = ("tool", "status", "agent", "workspace", "project", "role")
_TIMES = ("after", "before")

SPECS: dict[str, Spec] = {
    "search_workspace": Spec(
        "Search this workspace", SearchWorkspace, answers.SearchAnswer, filters=SEARCH, without=(*_RARE, *_TIMES)
    ),
    "get_context": Spec(
        "Get background on a topic", GetContext, answers.SearchAnswer, filters=SEARCH, without=(*_RARE, *_TIMES, "type")
    ),
    "get_decision_history": Spec(
        "Get decisions", GetDecisionHistory, answers.DecisionsAnswer, filters=SEARCH, without=(*_RARE, *_TIMES, "type")
    ),
    "list_sessions": Spec(
        "List sessions", ListSessions, answers.ListAnswer, filters=LIST, without=("agent", "workspace", *_TIMES)
    ),
    "get_session": Spec("Read a session", GetSession, answers.SessionAnswer),
    "search_sessions": Spec(
        "Search all sessions", SearchSessions, answers.SearchAnswer, filters=SEARCH, without=(*_RARE, "type")
    ),
    "why_line": Spec("Find why a line exists", WhyLine, answers.WhyAnswer),
    "touched_file": Spec("List conversations about a file", TouchedFile, answers.TouchAnswer),
    "save_session": Spec("Save a session", SaveSession, answers.SaveAnswer, read_only=False),
    "resume_session": Spec("Resume a session here", ResumeSession, answers.ResumeAnswer, read_only=False),
}


def arguments_of(spec: Spec) -> type[ToolArguments]:
    """Return the struct of a tool's arguments: its own, and the filters, which are made from `model/query.FILTERS`."""
    return _arguments(spec, tuple(_filter_names(spec)))


def _filter_names(spec: Spec) -> list[str]:
    names = {"": (), LIST: of_sessions(), SEARCH: FILTERS}[spec.filters]
    return [name for name in names if name not in spec.without]


@cache
def _arguments(spec: Spec, names: tuple[str, ...]) -> type[ToolArguments]:
    fields: list[tuple[str, Any, Any]] = []
    for filter, name in ((FILTERS[name], name) for name in names):
        for flag, (of_list, of_search) in filter.flags.items():
            about = of_list if spec.filters == LIST else of_search
            fields.append((flag, Annotated[bool, Meta(description=about)], False))
        if not filter.flags:
            about = filter.for_models or filter.help
            fields.append((name, Annotated[str, Meta(description=about)], ""))
    name, bases = spec.call.__name__, (spec.call,)
    made = msgspec.defstruct(name, fields, bases=bases, frozen=True, kw_only=True, forbid_unknown_fields=True)
    return cast(type[ToolArguments], made)


def filters_of(given: ToolArguments) -> dict[str, str]:
    """Return the filters that a call has, by name. Raises UsageError if one is invalid."""
    spec = next(spec for spec in SPECS.values() if isinstance(given, spec.call))
    filters: dict[str, str] = {}
    for name in _filter_names(spec):
        flags = [flag for flag in FILTERS[name].flags if getattr(given, flag)]
        value = ",".join(flags) if FILTERS[name].flags else str(getattr(given, name))
        if value:
            filters[name] = value
    check_filters(filters)
    return filters


def description(spec: Spec) -> str:
    """Return the description of a tool for the model."""
    return " ".join((spec.call.__doc__ or "").split())


def schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct, without references: not every client follows them."""
    document = msgspec.json.schema(kind)
    components = document.get("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, list):
            return [inlined(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            component = components[value["$ref"].rpartition("/")[2]]
            return inlined({name: part for name, part in component.items() if name not in ("title", "description")})
        # An empty default only says that the field is optional, which the schema says anyway.
        kept = {name: item for name, item in value.items() if name != "default" or item not in ("", [])}
        return {name: inlined(item) for name, item in kept.items()}

    plain: dict[str, Any] = inlined(document)
    return plain


def decode(kind: type[ToolArguments], arguments: dict[str, Any]) -> Any:
    """Return a call from its arguments. Raises UsageError if something is missing or wrong."""
    fields = _fields(kind)
    given = {name: value for name, value in arguments.items() if value is not None}
    if "date_range" in given:
        given["date_range"] = range_as_text(given["date_range"])
    if unknown := [name for name in given if name not in fields]:
        names = ", ".join(ascii(name)[:60] for name in unknown[:5])
        raise UsageError(f"unknown argument {names}", hint=f"this tool takes {', '.join(fields)}")
    values = {name: _coerced(value, fields[name].type) for name, value in given.items()}
    for name, field in fields.items():
        if field.required and values.get(name, "") == "":
            raise UsageError(f"{name} is missing", hint=f"provide '{name}'")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise UsageError(f"{path.rstrip('`')}: {problem}") from None


@cache
def _fields(kind: type[ToolArguments]) -> dict[str, inspect.Field]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.name: field for field in info.fields}


def _coerced(value: Any, wanted: inspect.Type) -> Any:
    """Return a value converted to the wanted type if its meaning is clear; otherwise unchanged."""
    if isinstance(wanted, inspect.Metadata):
        wanted = wanted.type
    if isinstance(wanted, inspect.IntType) and not isinstance(value, bool):
        return _clamped(value, wanted)
    if isinstance(wanted, inspect.BoolType):
        word = str(value).lower()
        return True if word in ("true", "yes", "1") else False if word in ("false", "no", "0", "") else value
    if isinstance(wanted, inspect.ListType):
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return [item.strip() for item in items if item.strip()][:_MOST_IDS]
        return items
    if isinstance(wanted, inspect.StrType):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)  # an id such as 001 that the model sent as a number
        return value.strip() if isinstance(value, str) else value
    return value


def _clamped(value: Any, wanted: inspect.IntType) -> Any:
    """Return an integer within its bounds, also from "5" and 5.0."""
    try:
        number = int(float(value)) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        return value
    number = number if wanted.ge is None else max(number, wanted.ge)
    return number if wanted.le is None else min(number, wanted.le)


def range_as_text(value: Any) -> Any:
    """Return a range as text, from ["2026-11-01", "2026-11-15"] or {"from": …, "to": …}; anything else unchanged."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, str) for end in value):
        return "..".join(value)
    if isinstance(value, dict):
        ends = {name.lower(): end for name, end in value.items() if isinstance(end, str)}
        begin, end = (next((ends[name] for name in names if name in ends), "") for names in (_BEGIN, _END))
        return f"{begin}..{end}" if begin or end else value
    return value


def date_filters(text: str) -> dict[str, str]:
    """Return the filters `after` and `before` for `2026-11-01..2026-11-15`, `2026-11`, `7d` or `last week`."""
    begin, end = _ends(text)
    found = {name: value.strip() for name, value in (("after", begin), ("before", end)) if value.strip()}
    try:
        check_filters(found)
    except UsageError:
        hint = "use 2026-11-01..2026-11-15, 2026-11, yesterday, 7d or 2w"
        raise UsageError(f"invalid date range {ascii(text)[:80]}", hint=hint) from None
    return found


def _ends(text: str) -> tuple[str, str]:
    """Return the two ends of a range; an empty one is open."""
    last = _LAST.fullmatch(text)
    if last:
        return f"{last[1] or 1}{_UNIT[last[2].lower()]}", ""
    if _RANGE.search(text):
        begin, end, *_ = _RANGE.split(text, maxsplit=1)
        return begin, end
    if re.fullmatch(r"\d{1,4}[hdwmy]", text, re.IGNORECASE):
        return text, ""
    return text, text  # one day, month or year: the whole of it
