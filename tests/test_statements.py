"""The statements of the seed documents that were not yet true in the four programs, and the test that proves each.

81 of 96 were true when they were played against the documents. Those that were not are about what a conversation says
of itself, and about what a resume shows: a row each here. The tests in ON_SCREEN type on the programs' own screens and
read them.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from cortext.testing.table import every_row

HERE = Path(__file__).parent
TALK = "tools/test_talk_on_screen.py::test_a_talk_on_the_screen_pauses_at_a_goodbye_and_says_what_it_was"
EXAMPLE = "tools/test_seed_conversation.py::test_the_example_is_listed_resumed_and_stopped_as_the_documents_show_it"
BEGUN = "tools/test_resume_flows.py::test_an_empty_conversation_is_opened_captured_and_moved"
TYPED = "tools/test_resume_inside.py::test_a_command_typed_on_the_screen_gives_the_model_its_prompt_without_asking"
SEAM = "faces/test_two_machines.py::test_the_tool_that_is_opened_gets_the_seam"
ON_SCREEN = (TALK, EXAMPLE, BEGUN, TYPED)
PACKET = "services/test_packet.py"
SEED = "faces/test_seed_workspace.py"
BY_AGENT = "faces/test_summary_by_agent.py"
PRINT = "faces/test_resume_print.py"

TABLE = {
    # One good summary, never stale
    "the summary says where the talk stopped: the last ask and what became of it": TALK,
    "it is in the order of the talk, with its speakers": "services/test_summarise.py::"
    "test_a_summary_has_the_order_and_speakers_of_the_talk_and_its_last_ask",
    "the agent in the room is asked for it once, in the turn that happens anyway": f"{BY_AGENT}::"
    "test_stopping_asks_for_it_once_in_the_turn_that_happens_anyway",
    "a line of it that the talk does not hold is dropped whole and named": f"{BY_AGENT}::"
    "test_a_line_that_the_talk_does_not_hold_is_dropped_whole_and_named",
    "it covers everything up to the last stop": f"{SEED}::test_a_summary_covers_everything_up_to_the_last_stop",
    "one of another program counts as of its time": f"{SEED}::test_a_summary_of_another_program_counts_as_of_its_time",
    "list, block and file show the same words": f"{BY_AGENT}::test_list_block_and_file_show_the_same_words",
    "a model's summary keeps the names of the last messages and the next step": f"{PACKET}::"
    "test_the_names_and_the_next_step_of_a_summary_outlast_its_other_sections",
    # One title everywhere
    "a conversation in the seed's format has its heading as its title in every face": f"{SEED}::"
    "test_a_conversation_in_the_seed_format_has_one_title_everywhere",
    "the title is that of the topic on every screen": TALK,
    # The tools that it had
    "only tools that the model had are listed": "tools/test_mcp_in_tools.py::"
    "test_only_the_tools_that_claude_code_had_are_listed",
    "none is listed in a program that used none": TALK,
    # Branches
    "what two machines said is two branches": "faces/test_two_machines.py::test_what_two_machines_said_is_two_branches",
    "a resume joins them or continues one": "faces/test_two_machines.py::"
    "test_a_resume_joins_branches_or_continues_the_one_that_is_named",
    "the next model is told of the seam": SEAM,
    "two tools at once are two branches": "faces/test_resume_in_chat.py::test_two_tools_at_once_are_two_branches",
    # Only the talk
    "our commands, fillers and notices are not part of the talk": "faces/test_only_the_talk.py::"
    "test_commands_fillers_and_notices_are_kept_as_asides",
    "the prompt of a command is not the user's message": TALK,
    "one stop is one commit": "faces/test_only_the_talk.py::test_one_stop_is_one_commit",
    # Status, pauses
    "a session that is quiet and summarised is idle": "agents/alfred/test_worker.py::"
    "test_an_idle_session_says_so_in_its_file_and_every_list_until_the_next_message",
    "a goodbye on the screen pauses": TALK,
    "sixty goodbyes pause": "services/test_pausing.py::test_a_goodbye_is_recognised",
    "work that sounds like one does not": "services/test_pausing.py::test_work_is_not_mistaken_for_a_goodbye",
    "a quiet conversation is paused by what runs anyway, and the next prompt says so": f"{SEED}::"
    "test_what_runs_anyway_pauses_and_the_next_prompt_says_so",
    # A resume shows the talk
    "the block has the seed's fields and sentences": f"{PACKET}::"
    "test_the_block_is_that_of_the_seed_with_the_safety_wording_before_its_end",
    "the example of the documents is listed, resumed and stopped as they show it": EXAMPLE,
    "what only shows a resume mentions that a conversation was completed": f"{PRINT}::"
    "test_what_only_shows_a_resume_says_that_it_was_completed",
    "a new conversation shows what would start": f"{PRINT}::test_a_new_conversation_shows_what_would_start",
    "a new conversation is opened with its command": BEGUN,
    "branch, commit and skills that are not as they were are in the receipt": f"{PRINT}::"
    "test_branch_commit_and_skills_that_are_not_as_they_were_are_in_the_receipt",
    "a command typed on a program's screen gives its prompt": TYPED,
}


@cache
def _tests_in(path: str) -> dict[str, list[str]]:
    """Return the tests in a file, each with its decorators."""
    tree = ast.parse((HERE / path).read_text(encoding="utf-8"))
    tests = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: [ast.unparse(one) for one in node.decorator_list] for node in tests}


@every_row("statement", list(TABLE))
def test_a_statement_names_a_test_that_exists(statement: str) -> None:
    path, _, name = TABLE[statement].partition("::")
    assert name in _tests_in(path)


@every_row("place", ON_SCREEN)
def test_a_test_on_screen_runs_the_real_program_in_a_terminal(place: str) -> None:
    path, _, name = place.partition("::")
    assert place in TABLE.values()
    assert "pytest.mark.real_tool" in _tests_in(path)[name]
    assert "import Screen" in (HERE / path).read_text(encoding="utf-8")
