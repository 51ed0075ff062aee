"""The matrix of pairs without its programs: what counts as passed, what is run first, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.model_server import Request, Turn
from tests.support.pairs import COMMAND, NEXT, SUMMARY, Outcome, Said, compare
from tests.tools.matrix import Results, in_order
from tests.tools.matrix_page import FRESH, HOMES, RUNNERS, USED, Row, page, versions

from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import Origin, Session
from cortext.services.resume.handover import NEW, Plan
from cortext.services.resume.packet import Receipt

NAMES = list(RUNNERS)
OUTPUTS = {"1": "the heron stands still", "2": "seventeen"}
COMMANDS = {"1": "cat note.txt", "2": "cat count.txt"}
CALLS = [Turn("assistant", "tool_call", name="sh", arguments=COMMANDS[key], call_id=key) for key in COMMANDS]
SAID = [Said(USER, "Read both."), Said(ASSISTANT, "Done.")]
CLOSING = f"{COMMAND} [RESUMED CONVERSATION] {SUMMARY} [END RESUMED CONTEXT] {NEXT}"


def _plan() -> Plan:
    calls = [Part(type=TOOL_CALL, id=key, name="sh", input=command) for key, command in COMMANDS.items()]
    results = [Part(type=TOOL_RESULT, call_id=key, output=output) for key, output in OUTPUTS.items()]
    carried = [
        Message(role=USER, content="Read both."),
        Message(role=ASSISTANT, parts=calls),
        Message(role=TOOL, parts=results),
        Message(role=ASSISTANT, content="Done."),
    ]
    receipt = Receipt(session="1", messages=4, of_messages=4, tool_calls=2)
    session = Session(id="1", type="plan", title="Herons", origin=Origin(tool="claude"))
    return Plan(session=session, project="", carried=carried, prompt="", receipt=receipt, how=NEW)


def _problems(*turns: Turn) -> list[str]:
    conversation = (Turn("user", "text", "Read both."), *turns, Turn("user", "text", CLOSING))
    request = Request(1, "POST", "/", {}, {}, "chat", False, conversation)
    return compare(request, _plan(), SAID).problems


def _results(outputs: dict[str, str]) -> list[Turn]:
    return [Turn("tool", "tool_result", output, call_id=key) for key, output in outputs.items()]


def test_a_request_as_the_receipt_says_has_no_problems() -> None:
    assert _problems(*CALLS, *_results(OUTPUTS), Turn("assistant", "text", "Done.")) == []


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ([*CALLS, *_results({"1": "seventeen", "2": "the heron stands still"})], "output of 'cat note.txt'"),
        ([*CALLS, *_results({"1": OUTPUTS["1"]})], "results for ['1']"),
        ([CALLS[0], *_results({"1": OUTPUTS["1"]})], "1 calls were received, 2 are in the receipt"),
        ([*CALLS, *_results({"1": OUTPUTS["1"], "3": OUTPUTS["2"]})], "results for ['1', '3']"),
    ],
)
def test_a_request_that_differs_from_the_receipt_is_a_problem(turns: list[Turn], problem: str) -> None:
    assert problem in "; ".join(_problems(*turns, Turn("assistant", "text", "Done.")))


def test_a_text_in_another_role_is_a_problem() -> None:
    assert "not received as assistant" in _problems(*CALLS, *_results(OUTPUTS), Turn("user", "text", "Done."))[0]


def test_every_pair_is_run_once_in_every_home_and_every_program_early() -> None:
    order = in_order(NAMES)
    assert len(order) == len(set(order)) == len(NAMES) ** 2 * len(HOMES)
    first = order[: len(NAMES) * len(HOMES)]
    for home in HOMES:
        assert {source for source, _, of in first if of == home} == set(NAMES)
        assert {target for _, target, of in first if of == home} == set(NAMES)


def _row(source: str, target: str, **fields: object) -> Row:
    return Row(source=source, target=target, versions=versions(source, target), date="2026-11-17", **fields)  # type: ignore[arg-type]


def _outcome(changed: dict[str, int], *problems: str) -> Outcome:
    return Outcome(
        messages=9, of_messages=9, calls=3, of_calls=3, left_out={}, changed=changed, problems=list(problems)
    )


def test_a_result_counts_only_for_the_versions_it_was_made_with(tmp_path: Path) -> None:
    results = Results(tmp_path)
    row = _row("claude", "pi", home=FRESH, outcome=_outcome({}))
    results.put(row)
    assert results.get("claude", "pi", FRESH) == row
    row.versions = ("1.0", "1.0")
    results.put(row)
    assert results.get("claude", "pi", FRESH) is None


def test_the_page_shows_what_passed_what_did_not_and_what_was_not_run() -> None:
    rows = [
        _row("claude", "pi", home=FRESH, outcome=_outcome({"tool name changed": 2})),
        _row("pi", "claude", home=FRESH, outcome=_outcome({}, "a text | is missing")),
        _row("pi", "claude", home=USED, error="claude was stopped after 300 s"),
    ]
    lines = page(["claude", "pi"], rows).splitlines()
    assert "2 of 4 pairs were run, 1 passed, on 2026-11-17." in lines
    assert "1 of 4 pairs were run, 0 passed, on 2026-11-17." in lines
    assert "| claude | – | ✓ 9/9, 3/3 † |" in lines
    assert "| pi | ✗ 9/9, 3/3 | – |" in lines and "| pi | ✗ | – |" in lines
    assert "| pi | claude | fresh | a text \\| is missing | unknown |" in lines
    assert "| pi | claude | used | claude was stopped after 300 s | unknown |" in lines
    assert "| pi | tool name changed | 2 | claude |" in lines
