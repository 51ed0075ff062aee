"""How often a hint is given, how often it is right, and what it costs: real conversations replayed in time order.

python -m bench.hints FOLDER PROJECT [--prompts 1500] [--commands 1500] [--keep DIR]

FOLDER has transcripts of Claude Code (`.jsonl`) about one project, so that no filter by project is needed; PROJECT is a
folder with that project's files. For every prompt, and for a sample of the shell commands, a hint is looked for in what
was said before that conversation began. It is right if the rest of the conversation uses or repeats what it points to:
it changes a file that was changed for it then and has a third of the words of what the hint says, or it has two thirds
of those words; words of the prompt or command itself do not count. As a control, the same is asked of the rest of every
other conversation, after a prompt in the middle of it. The intervals (95 %) are Wilson's.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench.common import print_table, spread
from bench.faces import at_home, home_environment
from bench.why import kept_folder
from cortext.model.message import ASSISTANT, TOOL_CALL, Message
from cortext.services.digest.asks import ask_of
from cortext.services.digest.calls import command_in, strings_in
from cortext.services.hints.hints import KINDS, Hint, Hinter
from cortext.services.hints.signs import phrase_of_command
from cortext.services.origin.edits import edits_in
from cortext.services.text.sentences import terms
from cortext.wiring.stores import Stores


class Rest(NamedTuple):
    """What followed in a conversation after a prompt or a command: the model's words, and the files that it changed."""

    receiver: str  # the id of the conversation
    asked: str
    words: frozenset[str]
    changed: frozenset[str]

    def uses(self, hint: Hint) -> bool:
        """Whether what followed uses what a hint points to."""
        said = terms(hint.says) - terms(self.asked)
        if len(said) < 3:
            return False
        share = len(said & self.words) / len(said)
        files = {os.path.basename(path) for path in hint.files}
        return share >= 2 / 3 or (share >= 1 / 3 and bool(files & self.changed))


class Outcome(NamedTuple):
    """A hint, and what followed in the conversation that received it."""

    hint: Hint
    rest: Rest

    @property
    def is_right(self) -> bool:
        """Whether the hint was of use."""
        return self.rest.uses(self.hint)

    def by_chance(self, others: Iterable[Rest]) -> list[bool]:
        """Return whether the rests of other conversations use the hint: neither its receiver's nor its source's."""
        apart = (self.rest.receiver, self.hint.row.id)
        return [rest.uses(self.hint) for rest in others if rest.receiver not in apart]


def main() -> None:
    """Print hints per 100 prompts, precision and milliseconds."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("folder")
    options.add_argument("project")
    options.add_argument("--prompts", type=int, default=1_500)
    options.add_argument("--commands", type=int, default=1_500)
    options.add_argument("--keep", help="a folder in which the import is kept for the next run")
    given = options.parse_args()
    with kept_folder(given.keep) as folder:
        home = os.path.join(folder, "home")
        if not os.path.isdir(home):
            os.makedirs(home)
            program = os.path.join(os.path.dirname(sys.executable), "cortext")
            for words in (["import", given.folder], ["search", "--exact", "anything"]):
                subprocess.run([program, *words], env=home_environment(home), capture_output=True, check=False)
        with at_home(home):
            Replay(os.path.abspath(given.project)).run(given.prompts, given.commands)


class Replay:
    """The conversations of a project in time order, and the hints that they would have got."""

    def __init__(self, project: str) -> None:
        stores = Stores(project)
        self.project, self.listing, self.search = project, stores.listing(), stores.search()
        self.search.refresh(meaning=False)
        self.outcomes: list[Outcome] = []
        self.controls: list[Rest] = []
        self.seconds: dict[str, list[float]] = {"prompt": [], "command": []}

    def run(self, prompts: int, commands: int) -> None:
        """Replay so many prompts and commands, and print what came of it."""
        rows = sorted(self.listing.rows(), key=lambda row: row.created_at)
        replayed = rows[len(rows) // 4 :]  # the first quarter has hardly anything before it
        generator = random.Random(1)
        share = min(1.0, commands / max(1, sum(row.message_count for row in replayed) / 4))
        for row in replayed:
            messages = list(self.listing.named_store(row.root).store.read(row.id))
            hinter = Hinter(
                self.listing, self.search, self.project, filters={"before": row.created_at}, leave_out=[row.id]
            )
            self._note_control(row.id, messages)
            given: set[str] = set()
            for index, message in enumerate(messages):
                asked = ask_of(message)
                if asked and len(self.seconds["prompt"]) < prompts:
                    recent = messages[max(0, index - 8) : index]
                    begin = time.process_time()
                    hint = hinter.hint(asked, recent, given)
                    self.seconds["prompt"].append(time.process_time() - begin)
                    self._note(hint, given, row.id, asked, messages[index + 1 :])
                for command in commands_of(message):
                    if len(self.seconds["command"]) < commands and generator.random() < share:
                        begin = time.process_time()
                        hint = hinter.before(command, given)
                        self.seconds["command"].append(time.process_time() - begin)
                        self._note(hint, given, row.id, command, messages[index + 1 :])
        self._report()

    def _note(
        self, hint: Hint | None, given: set[str], receiver: str, asked: str, following: Sequence[Message]
    ) -> None:
        if hint is not None:
            given.add(hint.key)
            self.outcomes.append(Outcome(hint, rest_of(receiver, asked, following)))

    def _note_control(self, receiver: str, messages: Sequence[Message]) -> None:
        asks = [(index, asked) for index, message in enumerate(messages) if (asked := ask_of(message))]
        if asks:
            index, asked = asks[len(asks) // 2]
            self.controls.append(rest_of(receiver, asked, messages[index + 1 :]))

    def _report(self) -> None:
        asked = {"prompt": len(self.seconds["prompt"]), "command": len(self.seconds["command"])}
        print(f"{asked['prompt']} prompts, {asked['command']} commands\n")
        given: Counter[str] = Counter()
        right: Counter[str] = Counter()
        chances: dict[str, list[bool]] = {kind: [] for kind in KINDS}
        for outcome in self.outcomes:
            kind = outcome.hint.kind
            given[kind] += 1
            right[kind] += outcome.is_right
            chances[kind] += outcome.by_chance(self.controls)
        table = []
        for kind in KINDS:
            of = asked["command" if kind == "command" else "prompt"]
            low, high = wilson(right[kind], given[kind])
            chance = f"{sum(chances[kind]) / len(chances[kind]):.1%}" if chances[kind] else "–"
            found = f"{right[kind] / given[kind]:.0%} ({low:.0%}–{high:.0%})" if given[kind] else "–"
            table.append((kind, f"{given[kind]}", f"{100 * given[kind] / max(1, of):.2f}", found, chance))
        print_table(("kind", "hints", "per 100", "precision", "by chance"), table)
        for name, seconds in self.seconds.items():
            if seconds:
                times = spread([one * 1000 for one in seconds]).show("{:.1f}")
                print(f"processor milliseconds of looking for one, {name}: {times}")


def commands_of(message: Message) -> list[str]:
    """Return the shell commands that a message runs and that a hint could be given for."""
    calls = [command_in(part.input) for part in message.parts or () if part.type == TOOL_CALL]
    return [command for command in calls if phrase_of_command(command)]


def rest_of(receiver: str, asked: str, messages: Sequence[Message]) -> Rest:
    """Return the words that the model said or wrote in these messages, and the names of the files that it changed."""
    texts = [message.content for message in messages if message.role == ASSISTANT]
    texts += [
        text
        for message in messages
        for part in message.parts or ()
        if part.type == TOOL_CALL
        for text in strings_in(part.input)
    ]
    changed = frozenset(os.path.basename(edit.path) for edit in edits_in(messages))
    return Rest(receiver, asked, terms("\n".join(texts)), changed)


def wilson(right: int, of: int) -> tuple[float, float]:
    """Return the interval of 95 % for a share; everything is possible if nothing was counted."""
    if not of:
        return 0.0, 1.0
    z = 1.96
    share, weight = right / of, 1 + z * z / of
    middle = (share + z * z / (2 * of)) / weight
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / weight
    return max(0.0, middle - half), min(1.0, middle + half)


if __name__ == "__main__":
    main()
