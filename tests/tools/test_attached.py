"""A file or an image that the user attaches to a prompt (`@note.txt`) is stored, shown, counted, and carried over."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.screen import Screen

from cortext.model.message import plain
from cortext.wiring import tools
from cortext.wiring.stores import Stores

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server)


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "TOOL-03")
def test_attached_files_of_claude_code_reach_the_model_in_codex(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    folder = desk.project()
    (folder / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    (folder / "pixel.png").write_bytes(base64.b64decode(PIXEL))
    (folder / "reeds").mkdir()
    (folder / "reeds" / "nest.txt").write_text("three eggs\n", encoding="utf-8")
    desk.server.push("It stands still.")
    claude = desk.tools["claude"]
    assert claude.run("What do @note.txt and @reeds/ and @pixel.png say?", cwd=folder).returncode == 0
    session = f"claude-{claude.sessions()[-1]}"

    assert desk.cortext("import", cwd=folder).code == 0
    messages = desk.cortext("show", session, "--json", cwd=folder).json["messages"]
    attached = {
        message["extra"]["attachment"]: message for message in messages if "attachment" in (message.get("extra") or {})
    }
    assert set(attached) == {"note.txt", "reeds", "pixel.png"}
    assert "the heron stands still" in attached["note.txt"]["content"] and "nest.txt" in attached["reeds"]["content"]
    assert attached["pixel.png"]["parts"][0]["media_type"] == "image/png"
    assert messages[0]["content"].startswith("What do @note.txt"), "the title is the question, not the file"
    assert desk.cortext("search", "heron", cwd=folder).out.count("heron") >= 1
    planned = desk.cortext("resume", session, "--ai", "codex", "--dry-run", cwd=folder)
    assert planned.code == 0 and "3 attached files" in planned.out + planned.err, planned.out + planned.err

    home_store = next(named.store for named in Stores(str(folder)).all() if named.kind == "home")
    to_write = [plain(message) for message in home_store.read(session)]
    written = tools.native_writer("codex").write(to_write, project=str(folder), title="Herons")
    desk.server.push("Still there.")
    assert desk.tools["codex"].run("And now?", cwd=folder, resume=written.key).returncode == 0
    body = str(desk.server.turns[-1].body)
    assert body.index("What do @note.txt") < body.index("the heron stands still") < body.index("It stands still.")


def _resumed(desk: Desk, tmp_path: Path, folder: Path, session: str, target: str) -> tuple[str, str]:
    """Continue a conversation in a program's screen; return the receipt and what its model received."""
    words = ("resume", session, "--ai", target, "--rewrite")
    planned = desk.cortext(*words, "--dry-run", cwd=folder)
    desk.server.forget()
    desk.server.push(f"Here again in {target}.")
    with Screen(tmp_path, [str(SCRIPTS / "cortext"), *words], desk.env, folder) as screen:
        screen.wait_for(f"Here again in {target}.", timeout=120)
    return planned.out + planned.err, json.dumps([turn.body for turn in desk.server.turns])


@pytest.mark.real_tool
@pytest.mark.req("TRUE-03")
def test_an_image_arrives_as_bytes_in_the_four_programs(desk: Desk, tmp_path: Path) -> None:
    folder = desk.project()
    (folder / "pixel.png").write_bytes(base64.b64decode(PIXEL))
    desk.server.push("A pixel.")
    claude = desk.tools["claude"]
    assert claude.run("Look at this: @pixel.png", cwd=folder).returncode == 0
    session = f"claude-{claude.sessions()[-1]}"
    assert desk.cortext("import", cwd=folder).code == 0
    assert PIXEL in json.dumps(desk.server.turns[-1].body)

    for target in ("codex", "gemini", "claude", "opencode"):
        receipt, received = _resumed(desk, tmp_path, folder, session, target)

        assert ", 1 image," in receipt and "replaced by a text note" not in receipt, receipt
        assert PIXEL in received, target
