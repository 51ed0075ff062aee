"""The page about a file: which conversation wrote a line, which ones used the file; from an edit, and from the form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Origin, Session
from cortext.store.files.workspace import WorkspaceStore
from tests.faces.pond import SECRET, Pond, make_pond
from tests.support import chromium
from tests.support.cli import git
from tests.web.room import browsing
from tests.web.served import Served, serving

pytestmark = pytest.mark.req("FIND-07", "PAGE-01")

ASKED = f"Count the storks that stand, with {SECRET}"
BODY = """def census_of_storks(pond):
    counted = [stork for stork in pond if stork.is_standing]
    return len(counted) * STORKS_PER_SIGHTING
"""


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("files"))
    store = WorkspaceStore(str(made.folder))
    store.create(Session(id="007-debug-census", type="debug", title="The census", origin=Origin(tool="claude")))
    written = {"file_path": str(made.folder / "src" / "census.py"), "content": BODY}
    store.append(
        "007-debug-census",
        Message(role="user", content=ASKED, timestamp="2026-07-01T10:00:00.000Z"),
        Message(
            role="assistant",
            timestamp="2026-07-01T10:01:00.000Z",
            parts=[Part(TOOL_CALL, id="w", name="Write", input=written)],
        ),
        Message(role="tool", timestamp="2026-07-01T10:02:00.000Z", parts=[Part(TOOL_RESULT, call_id="w", output="ok")]),
        Message(role="assistant", content="Done.", timestamp="2026-07-01T10:03:00.000Z"),
    )
    (made.folder / "src").mkdir()
    (made.folder / "src" / "census.py").write_text(BODY, encoding="utf-8")
    (made.folder / "README").write_text("A pond that nobody but people wrote about.\n", encoding="utf-8")
    (made.home / "private.txt").write_text("outside\n", encoding="utf-8")
    git(made.folder, "add", ".")
    git(made.folder, "commit", "-qm", "Count storks", "--date", "2026-07-01T11:00:00Z")
    return made


@pytest.fixture(scope="module")
def served(pond: Pond) -> Iterator[Served]:
    with serving(pond.env, pond.folder) as running:
        yield running


@pytest.mark.skipif(chromium.program() is None, reason="no Chromium here: python -m tests.support.chromium")
def test_from_an_edit_to_the_ask_behind_a_line(served: Served, pond: Pond) -> None:
    with browsing(served) as room, room.page() as page:
        room.open(page, "The census")
        page.locator("details.edit summary").click()
        page.locator("details.edit a.origin").click()
        page.wait_for_url(f"{room.base}/why?**")
        assert page.locator("#file").input_value() == "src/census.py"
        assert page.locator("section[aria-labelledby=touched] .card").count() == 1
        page.locator("#file").fill("src/census.py:2")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_url("**census.py%3A2**")
        first = page.locator("section[aria-labelledby=origin] .card").first
        assert "high confidence" in first.inner_text() and "Count the storks that stand" in first.inner_text()
        assert SECRET not in page.content()
        first.get_by_role("link", name="You asked").click()
        shown = page.wait_for_selector("article:target")
        assert shown and shown.get_attribute("id") == "m0"


def test_what_no_agent_wrote_and_what_is_outside_is_said_plainly(pond: Pond, tmp_path: Path) -> None:
    with serving(pond.env, pond.folder) as running:
        running.open()

        def ask(file: str, project: str = str(pond.folder)) -> tuple[int, str]:
            reply = running.get(f"/why?{urlencode({'project': project, 'file': file})}")
            return reply.status, reply.words

        status, words = ask("README:1")
        assert status == 200 and "Not by an agent, as far as is known" in words
        assert "No stored conversation used it" in words
        assert ask("src/gone.py")[0] == 200 and "does not exist" in ask("src/gone.py")[1]
        for file in ("../home/private.txt", str(pond.home / "private.txt"), "/etc/passwd:1"):
            status, words = ask(file)
            assert "outside" in words or "in no git repository" in words, words
            assert "root:" not in words
        assert ask("README", str(tmp_path))[0] == 400, "no folder that conversations were held in"
        assert ask("src/census.py:0")[0] == 400 and ask("src/census.py:99")[0] == 400
        assert "Continue in" in ask("src/census.py:2")[1]
        # The page pauses quiet conversations and commits them: HEAD may be newer.
        commit = git(pond.folder, "log", "-1", "--format=%H", "--grep=Count storks").strip()
        of_commit = running.get(f"/why?{urlencode({'project': str(pond.folder), 'commit': commit})}").words
        assert "Count storks" in of_commit and "confidence: it wrote" in of_commit, of_commit
        assert "Count the storks that stand" in of_commit
        for given in ({"commit": "no-such"}, {"commit": "--output=x"}, {"commit": "HEAD", "file": "README"}):
            assert running.get(f"/why?{urlencode({'project': str(pond.folder), **given})}").status in (400, 404), given
        assert running.get("/why").status == 200 and "Why a line exists" in running.get("/why").words
