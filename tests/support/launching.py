"""`cortext resume` as a user runs it: the real command in a terminal, and one more message typed on the screen."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cortext.model.message import ASSISTANT, USER
from cortext.model.threads import thread
from cortext.safety.framing import BEGIN, END
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.planning import NEW, OWN, TOPICLESS, Plan, make_plan
from cortext.services.resume.receipt import NOTES
from cortext.services.workspace.registry import command_text
from cortext.tools.base import NativeWriter, Transcript, user_speaks_first
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import Request
from tests.support.pairs import ANSWER, BLOCK, CLOSING, NEXT, OPENING, SUMMARY, Outcome, Said, compare
from tests.support.screen import Screen
from tests.support.waiting import wait_until

WELCOME = "I have picked it up: the herons stand where they stood."
START_SECONDS = 170.0  # on a loaded machine; most take three
# What a tool shows when it has loaded the conversation and the user speaks first; any other answers the first prompt.
LOADED = {"aider": "Restored previous"}

# The first prompt: it has neither title nor summary, because everybody can read it.
ASKED = [Said(USER, BEGIN), Said(USER, END)]

_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ESTIMATE = re.compile(r", about [\d,]+ tokens")


class Launched(NamedTuple):
    """What a model received: at the start, if the tool sends a prompt then, and with the message that was typed.

    `problems` is what is wrong with the receipt on the screen and with the tool's own files.
    """

    plan: Plan
    first: Request | None
    request: Request
    problems: list[str]
    withheld: set[str]  # the texts that the tool does not send of its own session, by the receipt

    def outcome(self, said: Sequence[Said]) -> Outcome:
        """Compare both requests with the receipt and with what was said in the source."""
        said = [one for one in said if one.text not in self.withheld]
        opening = _opening(self.plan)
        start = [] if self.first is None else [*ASKED, Said(ASSISTANT, WELCOME)]
        outcome = compare(self.request, self.plan, said, [*start, *CLOSING], opening)
        if self.first is not None:
            problems = compare(self.first, self.plan, said, ASKED, opening).problems
            outcome.problems += [f"at the start: {problem}" for problem in problems]
        outcome.problems += self.problems
        return outcome


def _opening(plan: Plan) -> list[Said]:
    """Return what a new session holds before the conversation; a pair's has a command and a summary."""
    if plan.how != NEW:
        return []
    if plan.session.summary != SUMMARY:
        return ASKED
    return BLOCK if plan.instructions else OPENING


def launched(desk: Desk, stores: Stores, conversation: StoredConversation, target: str, project: Path) -> Launched:
    """Resume a conversation in a program with `cortext resume`, and type one more message there."""
    tool = tools.native_writer(target)
    plan = _planned(conversation, tool, stores.settings.resume.native_tokens, project)
    before = _sessions(tool, project)
    sizes = _sizes(tool, plan)
    withheld = _withheld(tool, plan)
    folder = Path(tempfile.mkdtemp(prefix="screen-", dir=desk.home.parent))
    command = [str(SCRIPTS / "cortext"), "resume", conversation.session.id, "--ai", target]
    desk.server.answer(NEXT, ANSWER)
    desk.server.answer(END, WELCOME)
    start = len(desk.server.requests)
    with Screen(folder, command, desk.env, project, "150x70", log=folder / "log") as screen:
        first = None if user_speaks_first(tool) else _answered(desk, screen, start)
        if first is None:
            screen.wait_for(LOADED.get(target, plan.carried[-1].content), timeout=START_SECONDS)
        typed = len(desk.server.requests)
        desk.say(screen.at_prompt(), NEXT)
        screen.wait_for(ANSWER, timeout=START_SECONDS)
        known = {message.id for message in plan.carried}.union(*before.values())
        plan.key = _key_of_answer(tool, project, known, screen)
        process = screen.process()
    desk.server.drop_replies()
    _wait_for_end(process)
    requests = desk.server.requests[typed:]
    request = next(request for request in requests if request.is_turn and NEXT in "\n".join(request.texts()))
    problems = _unlike_receipt(plan, (folder / "log").read_text("utf-8", "replace"))
    problems += _lost(before, _sessions(tool, project), plan)
    problems += [f"{path.name} shrank" for path, size in sizes.items() if path.stat().st_size < size]
    return Launched(plan, first, request, problems, withheld)


def _planned(conversation: StoredConversation, tool: NativeWriter, budget: int, project: Path) -> Plan:
    """Return the plan that the command makes as well."""
    command, topicless = (
        command_text(conversation.root, conversation.session.type, topic)
        for topic in (conversation.session.title, TOPICLESS)
    )
    return make_plan(conversation, tool, command=command, topicless=topicless, budget=budget, project=str(project))


def _answered(desk: Desk, screen: Screen, start: int) -> Request:
    """Return the first request, when it has been answered."""
    try:
        request = desk.server.wait_for(
            lambda request: request.number > start and request.is_turn and END in "\n".join(request.texts()),
            START_SECONDS,
        )
    except TimeoutError as late:
        raise AssertionError(f"the model was not asked\n{screen.text()}") from late
    screen.wait_for(WELCOME, timeout=START_SECONDS)
    return request


def _key_of_answer(tool: NativeWriter, project: Path, known: set[str], screen: Screen) -> str:
    """Return the tool's session that the answer was stored in: a screen shows it before that."""

    def key() -> str:
        for transcript in _transcripts(tool, project):
            added = (message for message in tool.read(transcript) if message.id not in known)
            if any(message.content == ANSWER for message in added):
                return transcript.key
        return ""

    return wait_until(key, START_SECONDS, lambda: f"the answer is stored\n{screen.text()}")


def _wait_for_end(process: int) -> None:
    """Wait until the program has noticed that its window was closed, and has written what it still wants to write."""
    wait_until(lambda: not _is_running(process), START_SECONDS, "the program ends with its terminal")


def _is_running(process: int) -> bool:
    try:
        return Path("/proc", str(process), "stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _transcripts(tool: NativeWriter, project: Path) -> list[Transcript]:
    """Return every session of a tool; Aider's are found in the projects that it was used in."""
    return list({found.key: found for found in (*tool.transcripts(), *tool.transcripts(str(project)))}.values())


def _sessions(tool: NativeWriter, project: Path) -> dict[str, list[str]]:
    """Return the ids of the messages in every session of a tool."""
    return {found.key: [message.id for message in thread(tool.read(found))] for found in _transcripts(tool, project)}


def _sizes(tool: NativeWriter, plan: Plan) -> dict[Path, int]:
    """Return the size of the tool's own file, if that is what is opened and it is not a database."""
    files = [Path(found.path) for found in tool.transcripts(plan.project) if plan.how == OWN and found.key == plan.key]
    return {path: path.stat().st_size for path in files if path.is_file() and path.suffix != ".db"}


def _withheld(tool: NativeWriter, plan: Plan) -> set[str]:
    """Return the texts that a tool does not send of its own session."""
    if plan.how != OWN:
        return set()
    own = next(found for found in tool.transcripts(plan.project) if found.key == plan.key)
    withheld = tool.withheld(own)
    assert withheld is not None, "else a new session is written"
    ids = set[str]().union(*withheld.messages.values())
    return {message.content for message in plan.carried if message.id in ids}


def _lost(before: dict[str, list[str]], after: dict[str, list[str]], plan: Plan) -> list[str]:
    """Return which sessions of the tool hold less than before, and whether the resumed one lacks what it was given."""
    problems = [
        f"the tool's session {key} held {len(ids)} messages and now {len(after.get(key, []))}, or others"
        for key, ids in before.items()
        if after.get(key, [])[: len(ids)] != ids
    ]
    given = [message.id for message in plan.carried]
    left_out = sum(count for kind, count in plan.receipt.left_out.items() if kind != NOTES)
    missing = len(set(given) - set(after[plan.key])) - left_out
    return [*problems, *([f"{missing} of {len(given)} messages are no longer in its session"] if missing > 0 else [])]


def _unlike_receipt(plan: Plan, log: str) -> list[str]:
    """Return the lines of the receipt that the terminal did not show; the tokens depend on the time of day."""
    shown = "".join(_CONTROLS.sub("", log).split())
    lines = [_ESTIMATE.sub("", line) for line in plan.receipt.lines()]
    return [f"not on the screen: {line}" for line in [plan.how, *lines] if "".join(line.split()) not in shown]


def captured_again(desk: Desk, conversation: StoredConversation, target: str) -> list[str]:
    """Take in what was said after the resume; return problems unless exactly that was added and every id stayed."""
    before = [message.id for message in thread(conversation.store.read(conversation.session.id))]
    done = desk.cortext("sync", "--from", target, cwd=desk.home)
    if done.code:
        return [f"sync: {done.err}"]
    after = thread(conversation.store.read(conversation.session.id))
    problems = [] if [message.id for message in after][: len(before)] == before else ["earlier messages changed"]
    added = [(message.role, message.content) for message in after[len(before) :] if message.content]
    welcome = [] if user_speaks_first(tools.native_writer(target)) else [(ASSISTANT, WELCOME)]
    if added != [*welcome, (USER, NEXT), (ASSISTANT, ANSWER)]:
        problems.append(f"added instead of what was said: {[(role, text[:60]) for role, text in added]}")
    return problems
