"""The bytes of images, found in the tools' transcripts, and which of them one request may carry."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from cortext.model.message import IMAGE, Message, Picture
from cortext.model.turns import Difference
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.new_session import LARGEST, MOST
from cortext.services.resume.planning import make_plan
from cortext.tools.base import KeepsImages, Transcript
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.support.cli import cortext
from tests.tools.claude_code.corpus import KEY, Script
from tests.tools.claude_code.corpus import call as claude_call
from tests.tools.codex.corpus import Rollout, provenance
from tests.tools.gemini_cli.corpus import Chat
from tests.tools.opencode.corpus import Corpus
from tests.tools.opencode.corpus import call as opencode_call
from tests.tools.opencode.corpus import image as opencode_image

FIRST, SECOND = (b"\x89PNG\r\n\x1a\n" + word for word in (b"the first", b"the second"))


def _base64(image: bytes) -> str:
    return base64.b64encode(image).decode("ascii")


def _url(image: bytes) -> str:
    return f"data:image/png;base64,{_base64(image)}"


def _claude(folder: Path) -> tuple[KeepsImages, Transcript]:
    pictures = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _base64(image)}}
        for image in (FIRST, SECOND)
    ]
    script = Script()
    script.user([{"type": "text", "text": "Look."}, pictures[0]])
    script.assistant(claude_call("toolu_1"))
    script.result("toolu_1", [{"type": "text", "text": "here"}, pictures[1]])
    return ClaudeCode(home=str(folder), environ={}), script.save(folder)


def _codex(folder: Path) -> tuple[KeepsImages, Transcript]:
    rollout = Rollout()
    content = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": _url(FIRST)}]
    message = {"type": "message", "role": "user", "content": content, **provenance("user.text", "user.image")}
    rollout.item("msg", message)
    rollout.call("call_1", "view_image", "{}")
    rollout.result("call_1", [{"type": "input_image", "image_url": _url(SECOND)}])
    tool = Codex(home=str(folder), environ={})
    transcript = tool.transcript_at(str(rollout.save(folder)))
    assert transcript is not None
    return tool, transcript


def _gemini(folder: Path) -> tuple[KeepsImages, Transcript]:
    chat = Chat().begin()
    first, second = ({"inlineData": {"mimeType": "image/png", "data": _base64(image)}} for image in (FIRST, SECOND))
    chat.put(chat.record("user", [{"text": "Look."}, first]))
    call = chat.call("read_file", "here")
    call["result"].append(second)
    chat.model("I see.", [call])
    tool = GeminiCli(home=str(folder), environ={})
    transcript = tool.transcript_at(str(chat.save(folder)))
    assert transcript is not None
    return tool, transcript


def _opencode(folder: Path) -> tuple[KeepsImages, Transcript]:
    corpus = Corpus(folder / "opencode.db")
    corpus.session()
    corpus.user("Look.", opencode_image(_url(FIRST)))
    corpus.assistant(opencode_call("read", {}, "here", attachments=[{**opencode_image(_url(SECOND)), "id": "prt_x"}]))
    corpus.close()
    tool = OpenCode(home=str(folder), environ={"OPENCODE_DB": str(folder / "opencode.db")})
    (transcript,) = tool.transcripts()
    return tool, transcript


@pytest.mark.req("TRUE-03")
@pytest.mark.parametrize("held", [_claude, _codex, _gemini, _opencode])
def test_the_bytes_of_images_are_found_by_their_references(held: object, tmp_path: Path) -> None:
    tool, transcript = held(tmp_path)  # type: ignore[operator]
    refs = [part.ref for message in tool.read(transcript) for part in message.parts_of(IMAGE)]

    assert tool.images(transcript, set(refs)) == dict(zip(refs, (FIRST, SECOND), strict=True))
    tool.copy(transcript, str(tmp_path / "copy"))
    copy = tool.transcript_at(str(tmp_path / "copy"))
    assert tool.images(copy, set(refs)) == dict(zip(refs, (FIRST, SECOND), strict=True))
    assert tool.images(transcript, {"another#x/0", "/etc/hostname"}) == {}


def _planned(
    home: Path, images: list[bytes], *, instead: tuple[bytes, bytes] = (b"", b"")
) -> tuple[list[Message], dict[str, int], int]:
    """Import a conversation with these images; return what a resume would carry, and what the receipt says of it."""
    folder = home / ".claude" / "projects" / "-work-sea-shanties"
    folder.mkdir(parents=True)
    script = Script()
    for image in images:
        source = {"type": "base64", "media_type": "image/png", "data": _base64(image)}
        script.user([{"type": "text", "text": "Look."}, {"type": "image", "source": source}])
        script.assistant("I see.")
    script.save(folder)
    assert cortext("import", "--from", "claude").code == 0
    (folder / f"{KEY}.jsonl").unlink()  # our copy is enough
    (copy,) = (home / ".local/share/cortext").rglob("native")
    copy.write_bytes(copy.read_bytes().replace(b'"%b"' % instead[0], instead[1]) if instead[0] else copy.read_bytes())
    stores = Stores(str(home))
    named_store = stores.home_store()
    (session,) = named_store.store.sessions()
    plan = make_plan(StoredConversation(named_store, session), tools.native_writer("codex"), project=str(home))
    return plan.carried, plan.receipt.changed, plan.receipt.images


@pytest.mark.req("TRUE-03")
def test_an_image_that_is_too_large_or_none_becomes_a_note(home: Path) -> None:
    too_large = FIRST + b"x" * LARGEST
    carried, changed, images = _planned(home, [FIRST, too_large, b"<svg>not an image that models take</svg>"])

    assert [type(part) is Picture for message in carried for part in message.parts_of(IMAGE)] == [True, False, False]
    assert images == 1 and changed[Difference.IMAGE] == 2


@pytest.mark.req("TRUE-03")
def test_the_newest_images_are_carried_up_to_a_limit(home: Path) -> None:
    carried, changed, images = _planned(home, [FIRST + bytes([number]) for number in range(MOST + 2)])

    assert images == MOST and changed[Difference.IMAGE] == 2
    assert not any(isinstance(part, Picture) for message in carried[:4] for part in message.parts_of(IMAGE))


@pytest.mark.req("TRUE-03", "SAFE-07")
def test_a_hostile_record_in_a_transcript_leaves_a_note(home: Path) -> None:
    deep = b"[" * 900 + b"]" * 900
    carried, changed, images = _planned(home, [FIRST], instead=(_base64(FIRST).encode(), deep))

    assert (images, changed[Difference.IMAGE]) == (0, 1) and len(carried) == 2
