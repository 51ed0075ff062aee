"""Which tests `bin/check --quick` leaves out, which `bin/check` leaves out, which come first, and which may be rerun.

A test that runs a real AI program is decorated with `real_tool`, and also with `heavy_tool` if the program is too large
for the test command, or with `repeats` if another program or home shows the same; other slow tests are marked by folder
or file.
"""

from __future__ import annotations

import os

import pytest

from tests.support.ai_programs import HEAVY_TOOLS

EVERY_CASE = "CORTEXT_EVERY_CASE"  # set to 1 to run the tests that are marked `repeats`, too

# Folders and files, and the marker of their tests.
MARKERS = {
    "tests/server/": "server",
    "tests/agents/alfred/test_server.py": "server",
    "tests/agents/alfred/test_terminal.py": "terminal",
    "tests/agents/aur/test_loop.py": "terminal",
    "tests/agents/aur/test_typing_ahead.py": "terminal",
    "tests/faces/test_browse.py": "terminal",
    "tests/faces/test_completion.py": "terminal",
    "tests/services/test_terminals.py": "terminal",
    # These start our commands as processes, hundreds of times.
    "tests/agents/alfred/": "long",
    "tests/agents/aur/": "long",
    "tests/faces/": "long",
    "tests/safety/": "long",
    "tests/web/": "long",
    "tests/wording/": "long",
    "tests/test_adding_a_tool.py": "long",
    "tests/test_lanes.py": "long",
    "tests/test_package.py": "long",
    "tests/test_site.py": "long",
    "tests/test_tool_registry.py": "long",
    # These repeat something many times, or work on much data.
    "tests/index/test_following.py": "long",
    "tests/index/test_rebuild.py": "long",
    "tests/services/test_garbage.py": "long",
    "tests/services/test_intake.py": "long",
    "tests/services/test_moved.py": "long",
    "tests/services/test_numbering.py": "long",
    "tests/store/crash/": "long",
    "tests/store/test_bulk.py": "long",
    "tests/store/test_fuzz.py": "long",
    "tests/store/test_limits.py": "long",
    "tests/store/test_state_machine.py": "long",
    "tests/store/test_zombie.py": "long",
    "tests/tools/test_children.py": "long",
    "tests/tools/test_jsonc.py": "long",
    "tests/tools/test_resume_flows.py": "long",
}

# A worker takes one file at a time, in this order, so that no long file is left for the end, when the other worker has
# nothing to do. The longest files, then the folders with long ones; all others follow.
FIRST = (
    "tests/tools/test_pairs.py",
    "tests/tools/test_resume_inside.py",
    "tests/tools/test_resume_flows.py",
    "tests/tools/test_put_back.py",
    "tests/tools/",
    "tests/safety/",
    "tests/faces/",
    "tests/store/",
    "tests/agents/alfred/",
    "tests/index/",
    "tests/server/",
)


def _position(item: pytest.Item) -> int:
    """Return when the file of a test comes."""
    return next((number for number, path in enumerate(FIRST) if item.nodeid.startswith(path)), len(FIRST))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not asked for, put long files first, mark slow tests, let a `real_tool` test run twice."""
    for variable, marker in ((HEAVY_TOOLS, "heavy_tool"), (EVERY_CASE, "repeats")):
        if os.environ.get(variable) != "1":
            left_out = [item for item in items if item.get_closest_marker(marker)]
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)
    items.sort(key=_position)  # stable: within a file the order stays
    for item in items:
        for path, marker in MARKERS.items():
            if item.nodeid.startswith(path):
                item.add_marker(marker)
        if item.get_closest_marker("real_tool") and config.pluginmanager.hasplugin("rerunfailures"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report both results of every test that was run twice."""
    reruns = terminalreporter.stats.get("rerun", [])
    if not reruns:
        return
    failed = {report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])}
    terminalreporter.section("run twice")
    for report in reruns:
        second = "failed" if report.nodeid in failed else "passed"
        reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
        terminalreporter.line(f"{report.nodeid}: failed, then {second}; the first time: {reason.splitlines()[0]}")
