"""`cortext resume` with a session that the tool has lost: put back from our copy, or written anew if that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.services.capture.copies import NotPutBack, copies_of
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.handover import carry_out
from cortext.services.resume.planning import OWN, PUT_BACK, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.faces.test_rescue import KEYS, claude_session, gemini_session
from tests.support.cli import cortext
from tests.tools.claude_code.corpus import PROJECT, Script


def _found(stores: Stores) -> StoredConversation:
    named_store = stores.home_store()
    (session,) = named_store.store.sessions()
    return StoredConversation(named_store, session)


@pytest.mark.req("TOOL-08")
def test_a_resumed_session_of_gemini_cli_does_not_expire_even_in_the_home_folder(home: Path) -> None:
    path = gemini_session(home, 0, days_ago=45, project=str(home))
    before = path.read_bytes()
    assert cortext("import", cwd=home).code == 0
    path.unlink()
    stores, tool = Stores(str(home)), tools.native_writer("gemini")
    plan = make_plan(_found(stores), tool, project=str(home))
    assert plan.how == PUT_BACK

    carry_out(plan, _found(stores), tool, stores.capture())

    assert path.read_bytes().startswith(before)
    assert cortext("rescue", "--dry-run", "--json", cwd=home).json["endangered"] == []
    assert not (home / ".gemini" / "settings.json").exists(), "the user's own settings are left alone"


@pytest.mark.req("TOOL-08")
def test_a_damaged_file_in_the_place_of_the_session_is_noticed(home: Path, tmp_path: Path) -> None:
    path = claude_session(home, 0, days_ago=1)
    path.write_text(path.read_text("utf-8").replace("/work/pond", str(tmp_path)), encoding="utf-8")
    assert cortext("import", cwd=tmp_path).code == 0
    path.unlink()
    stores, tool = Stores(str(tmp_path)), tools.native_writer("claude")
    plan = make_plan(_found(stores), tool, project=str(tmp_path))
    assert plan.how == PUT_BACK
    path.write_bytes(b"")  # after the plan

    with pytest.raises(NotPutBack, match=KEYS[0]):
        carry_out(plan, _found(stores), tool, stores.capture())
    assert path.read_bytes() == b""


@pytest.mark.req("TOOL-08")
def test_what_is_wrong_is_said_of_the_copy_with_messages_not_of_a_newer_stub(home: Path) -> None:
    """Gemini CLI leaves a second file without messages behind when a session is resumed in a later minute."""
    path = gemini_session(home, 0, days_ago=1, project=str(home))
    head = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines()[-1][:-9])
    assert cortext("import", cwd=home).code == 0
    path.unlink()
    path.with_name(path.name.replace("session-", "session-9", 1)).write_bytes(head)
    assert cortext("import", cwd=home).code == 0
    session = _found(Stores(str(home))).session
    assert len(copies_of(session.path)) == 2

    done = cortext("restore", "--into", "gemini", session.id, "--dry-run", "--json", cwd=home)

    assert done.json["why"] == "cortext's copy of the tool's own file ends within a record"


@pytest.mark.req("TRUE-03")
def test_its_own_session_is_used_although_an_earlier_version_kept_no_instructions(home: Path) -> None:
    folder = home / ".claude" / "projects" / "-work-sea-shanties"
    folder.mkdir(parents=True)
    script = Script()
    script.user("<command-message>heron</command-message>\n<command-name>/heron</command-name>")
    script.user([{"type": "text", "text": "Use a tally of five."}], isMeta=True)
    script.assistant("Counted.")
    script.save(folder)
    assert cortext("import", cwd=home).code == 0
    (log,) = (home / ".local/share/cortext").rglob("messages.jsonl")
    older = [line for line in log.read_text(encoding="utf-8").splitlines() if '"instructions"' not in line]
    log.write_text("".join(f"{line}\n" for line in older), encoding="utf-8")

    plan = make_plan(_found(Stores(str(home))), tools.native_writer("claude"), project=PROJECT)

    assert (plan.how, plan.receipt.messages) == (OWN, 2)
