"""`alfred` and `alfred "question"`: a talk in the terminal, or one answer on standard output."""

from __future__ import annotations

import argparse

from cortext.errors import UsageError
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.talk.interrupt import echo_by_prompt_only
from cortext.wiring.stores import Stores


def run(arguments: list[str]) -> int:
    """Talk, or answer what stands on the command line (`-`: on standard input)."""
    parser = argparse.ArgumentParser(prog="alfred", description="Talk with your assistant.", formatter_class=Help)
    parser.add_argument("question", nargs="*", help="a question; piped input is added after it, or in place of -")
    parser.add_argument("--model", default="", help="provider/name; else that of the settings")
    parser.add_argument("--new", action="store_true", help="begin a new session")
    parser.add_argument("--session", metavar="ID", default="", help="continue this session (any tool's)")
    parser.add_argument("--json", action="store_true", help="the answer of a question as JSON")
    options = parser.parse_args(arguments)
    words = options.question
    if not words and not options.json:
        with echo_by_prompt_only():  # first of all: people type before the prompt is there
            from cortext.faces.alfred.loop import Loop

            return Loop(Stores(), options.model).talk(new=options.new, session=options.session)
    from cortext.faces.alfred.loop import Loop
    from cortext.faces.terminal.talk.piped import question_of

    question = question_of(words or ["-"])
    if not question:
        raise UsageError("an empty question", hint='alfred "question"')
    loop = Loop(Stores(), options.model)
    return loop.once(question, new=options.new, session=options.session, as_json=options.json)
