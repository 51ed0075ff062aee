"""The matrix of pairs without its programs: what counts as passed, what is run first, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import ai_programs
from tests.support.ai_programs import PROGRAMS
from tests.support.model_server import ModelServer, Request, Turn
from tests.support.pairs import COMMAND, NEXT, SUMMARY, Outcome, Said, compare
from tests.tools import matrix_newest
from tests.tools.matrix import Results, in_order, is_done
from tests.tools.matrix_data import proven
from tests.tools.matrix_newest import Newest
from tests.tools.matrix_page import (
    FRESH,
    HOMES,
    ITSELF,
    RUNNERS,
    USED,
    Row,
    page,
    state,
    versions,
    with_state,
)

from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import Origin, Session
from cortext.model.turns import Difference
from cortext.services.resume.planning import NEW, Plan
from cortext.services.resume.receipt import Receipt
from cortext.services.workspace.installed_tools import SOURCES, ProvenPairs, code_files, code_of, proven_pairs

NAMES = list(RUNNERS)
OUTPUTS = {"1": "the heron stands still", "2": "seventeen"}
COMMANDS = {"1": "cat note.txt", "2": "cat count.txt"}
CALLS = [Turn("assistant", "tool_call", name="sh", arguments=COMMANDS[key], call_id=key) for key in COMMANDS]
SAID = [Said(USER, "Read both."), Said(ASSISTANT, "Done.")]
OPENING = f"{COMMAND} [RESUMED CONVERSATION] {SUMMARY} [END RESUMED CONTEXT]"


def _plan(changed: dict[str, int] | None = None, messages: int = 4) -> Plan:
    calls = [Part(type=TOOL_CALL, id=key, name="sh", input=command) for key, command in COMMANDS.items()]
    results = [Part(type=TOOL_RESULT, call_id=key, output=output) for key, output in OUTPUTS.items()]
    carried = [
        Message(role=USER, content="Read both."),
        Message(role=ASSISTANT, parts=calls),
        Message(role=TOOL, parts=results),
        Message(role=ASSISTANT, content="Done."),
    ]
    receipt = Receipt(session="1", messages=messages, of_messages=4, tool_calls=2, changed=changed or {})
    session = Session(id="1", type="plan", title="Herons", origin=Origin(tool="claude"))
    return Plan(session=session, project="", carried=carried, prompt="", receipt=receipt, how=NEW)


def _request(*turns: Turn) -> Request:
    texts = [Turn("user", "text", text) for text in (OPENING, "Read both.", NEXT)]
    conversation = (*texts[:2], *turns, texts[2])
    return Request(1, "POST", "/", {}, {}, "chat", False, conversation)


def _problems(*turns: Turn, plan: Plan | None = None) -> list[str]:
    return compare(_request(*turns), plan or _plan(), SAID).problems


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


def test_an_output_that_the_source_lost_itself_is_no_problem_but_is_said() -> None:
    plan = _plan()
    plan.carried[2].parts[1].output = "(empty)"  # type: ignore[index]
    turns = [*CALLS, *_results({**OUTPUTS, "2": "(empty)"}), Turn("assistant", "text", "Done.")]
    request = _request(*turns)
    outcome = compare(request, plan, SAID)
    assert (outcome.problems, outcome.lost) == ([], ["the output of 'cat count.txt'"])
    lines = page(["qwen", "pi"], [_row("qwen", "pi", home=FRESH, outcome=outcome)]).splitlines()
    assert "| qwen | – | ✓ 4/4, 2/2 ‡ |" in lines and "| qwen | the output of 'cat count.txt' |" in lines


def test_a_text_in_another_role_is_a_problem() -> None:
    assert "not received as assistant" in _problems(*CALLS, *_results(OUTPUTS), Turn("user", "text", "Done."))[0]


def test_a_history_that_is_sent_twice_is_a_problem() -> None:
    once = [Turn("user", "text", "Read both."), *CALLS, *_results(OUTPUTS), Turn("assistant", "text", "Done.")]
    found = _problems(*once[1:], *once)
    assert "received 2 times: 'Read both.'" in found and "received 2 times: 'Done.'" in found
    assert "4 calls were received, 2 are in the receipt" in found


def test_a_prompt_that_is_sent_twice_is_a_problem() -> None:
    [problem] = _problems(
        *CALLS, *_results(OUTPUTS), Turn("assistant", "text", "Done."), Turn("user", "text", f"Once more: {NEXT}")
    )
    assert problem == f"received 2 times: {NEXT[:60]!r}"


def test_words_that_the_assistant_never_said_are_a_problem() -> None:
    found = _problems(
        *CALLS, *_results(OUTPUTS), Turn("assistant", "text", "I am sorry."), Turn("assistant", "text", "Done.")
    )
    assert found == ["received as assistant, but never said: 'I am sorry.'"]


def test_another_number_of_messages_than_in_the_receipt_is_a_problem() -> None:
    turns = [*CALLS, *_results(OUTPUTS), Turn("assistant", "text", "Done.")]
    assert _problems(*turns, plan=_plan(messages=3)) == ["4 messages were received, 3 are in the receipt"]
    assert "2 messages were received, 4 are in the receipt" in _problems(turns[-1])


AS_TEXT = {Difference.CALLS_AS_TEXT.value: 2}


def _as_text(outputs: dict[str, str]) -> list[Turn]:
    """Return the calls and results as a program without structured calls gets them."""
    calls = [f"[call of sh ({key})]\n{command}" for key, command in COMMANDS.items()]
    results = [
        f"[result of the call of sh ({key}), which failed, not the user's words]\n{output}"
        for key, output in outputs.items()
    ]
    return [Turn("assistant", "text", "\n\n".join(calls)), Turn("user", "text", "\n\n".join(results))]


def test_calls_may_be_received_as_text_if_the_receipt_says_so() -> None:
    turns = [*_as_text(OUTPUTS), Turn("assistant", "text", "Done.")]
    assert _problems(*turns, plan=_plan(AS_TEXT)) == []
    assert "2 calls were received as text, 0 are in the receipt" in _problems(*turns)


@pytest.mark.parametrize(
    ("outputs", "problem"),
    [
        ({"1": OUTPUTS["2"], "2": OUTPUTS["1"]}, "the output of 'cat note.txt' was not received with its call"),
        ({"1": OUTPUTS["1"]}, "1 calls were received as text, 2 are in the receipt"),
    ],
)
def test_a_call_as_text_needs_its_own_output(outputs: dict[str, str], problem: str) -> None:
    assert problem in _problems(*_as_text(outputs), Turn("assistant", "text", "Done."), plan=_plan(AS_TEXT))


def test_every_pair_is_run_once_in_every_home_and_every_program_early() -> None:
    order = in_order(NAMES)
    own = [(name, name, ITSELF) for name in NAMES]
    assert order[: len(own)] == own
    assert len(order) == len(set(order)) == len(NAMES) ** 2 * len(HOMES) + len(own)
    first = order[len(own) : len(own) + len(NAMES) * len(HOMES)]
    for home in HOMES:
        assert {source for source, _, of in first if of == home} == set(NAMES)
        assert {target for _, target, of in first if of == home} == set(NAMES)


def _row(source: str, target: str, **fields: object) -> Row:
    fields = {"code": code_of(source, target), "launched": True, "date": "2026-11-17", **fields}
    return Row(source=source, target=target, versions=versions(source, target), **fields)  # type: ignore[arg-type]


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


def test_a_result_of_older_code_is_shown_as_older_and_run_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.put(_row("claude", "pi", home=FRESH, outcome=_outcome({}), code="of before"))
    results.put(_row("pi", "claude", home=FRESH, outcome=_outcome({})))
    rows = results.all(["claude", "pi"])
    lines = page(["claude", "pi"], rows).splitlines()
    assert "| claude | – | ✓ 9/9, 3/3, *older* |" in lines and "| pi | ✓ 9/9, 3/3 | – |" in lines
    assert "2 of 4 pairs were run, 2 passed, on 2026-11-17; 1 of them older." in lines
    assert not is_done(results.get("claude", "pi", FRESH)) and is_done(results.get("pi", "claude", FRESH))
    assert {name: pairs.passed_to for name, pairs in proven(rows).items()} == {"claude": 1, "pi": 0}


@pytest.mark.req("TRUE-01")
def test_the_page_says_how_old_the_shipped_results_are() -> None:
    text = Path("docs/pairs.md").read_text(encoding="utf-8")
    assert with_state(text, proven_pairs()) == text, "run `python -m tests.tools.matrix --page`"
    assert text.count(state(proven_pairs())) == 1
    now = {"pi": ProvenPairs(version="1", date="2026-11-17", code=code_of("pi"))}
    assert state(now) == "The pairs were run last on 2026-11-17."
    now["claude"] = ProvenPairs(version="1", date="2026-11-16", code="of before")
    assert with_state(text, now).count("last on 2026-11-17, before later changes to the code that carries") == 1


@pytest.mark.req("TRUE-01")
def test_a_result_of_a_start_without_a_terminal_is_older() -> None:
    assert not _row("claude", "pi", home=FRESH).is_older
    assert _row("claude", "pi", home=FRESH, launched=False).is_older


def test_the_hash_of_a_pair_is_of_its_two_adapters_and_of_what_all_share() -> None:
    files = {str(path.relative_to(SOURCES)) for path in code_files("claude", "opencode")}
    assert {"tools/claude_code/read.py", "tools/opencode/plugin.js", "model/turns.py"} <= files
    assert {"tools/shared/lines.py", "services/resume/handover.py"} <= files
    assert not any(name.startswith("tools/pi/") for name in files)
    assert len({code_of("claude", "pi"), code_of("claude", "opencode"), code_of("pi", "opencode")}) == 3


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


def test_the_report_on_the_newest_package_says_what_is_not_as_it_was() -> None:
    failed = _row("pi", "claude", home=FRESH, outcome=_outcome({}, "not received as user: 'a'"))
    found = Newest(tool="pi", tested="0.87.1", newest="1.5.2", unread={"record of type hologram": 2})
    found.rows = [_row("pi", "pi", home=ITSELF, outcome=_outcome({})), failed]
    assert list(found.lines()) == [
        "pi        0.87.1 → 1.5.2: 1 of 2 launches passed",
        "  pi → claude (fresh): not received as user: 'a'",
        "  not read: 2 × record of type hologram",
    ]
    assert not found.passed
    same = Newest(tool="pi", tested="0.87.1", newest="0.87.1")
    assert (list(same.lines()), same.passed) == (["pi        0.87.1 is the newest"], True)


def test_a_package_of_unknown_newest_version_is_reported_and_the_tested_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS["pi"]
    monkeypatch.setattr(ai_programs, "_said_by", lambda command: "99.0.0")
    monkeypatch.setattr(matrix_newest, "ensure", _refuse)
    with ModelServer() as server:
        found = matrix_newest.tried("pi", tmp_path, server)
    assert list(found.lines()) == [f"pi        {program.version} → 99.0.0: RuntimeError: no such package"]
    assert (found.passed, PROGRAMS["pi"]) == (False, program)


def _refuse(name: str) -> str:
    assert PROGRAMS[name].version == "99.0.0"
    raise RuntimeError("no such package")
