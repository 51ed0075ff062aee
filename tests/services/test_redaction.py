"""Redaction: every form in which a folder or a name is written, and nothing else."""

from __future__ import annotations

import pytest

from cortext.model.message import TOOL_CALL, Message, Part
from cortext.model.session import Session
from cortext.services.text import redaction
from cortext.services.text.redaction import NAMES, PATHS, Redaction
from cortext.testing.table import every_row

pytestmark = pytest.mark.req("PAGE-02")


@every_row(
    ("text", "redacted"),
    [
        ("/home/ada/x.py", "~/x.py"),
        ("see /home/ada.", "see ~"),
        ("/Users/ada-l/x", "~/x"),
        ("/var/home/ada/x", "~/x"),
        ("file:///home/ada/x", "file://~/x"),
        ("%2Fhome%2Fada%2Fx", "~%2Fx"),
        (r"{\"cwd\": \"\/home\/ada\/x\"}", r"{\"cwd\": \"~\/x\"}"),
        (r"C:\Users\ada\x", r"~\x"),
        (r"C:\\Users\\ada\\x", r"~\\x"),
        (r"C:\Users\Ada Lovelace\x", r"~\x"),
        (r"in C:\Users\ada and D:\x", r"in ~ and D:\x"),
        ("c:/users/ada/x", "~/x"),
        ("vscode file:///c%3A/Users/ada/x", "vscode file://~/x"),
        ("/mnt/c/Users/ada/x", "~/x"),
        ("/c/Users/ada/x", "~/x"),
        ("projects/-home-ada-x/1.jsonl", "projects/~-x/1.jsonl"),
        ("projects/-Users-ada-x/1.jsonl", "projects/~-x/1.jsonl"),
        ("projects/C--Users-ada-x", "projects/~-x"),
        ("/root/x and /root", "~/x and ~"),
        ("/srv/knots/x", "~/x"),
        ("projects/-srv-knots-x", "projects/~-x"),
        ("/srv/knots-and-bends/x", "/srv/knots-and-bends/x"),
        ("/srv/a%20b/x, /srv/a b/x", "~/x, ~/x"),
        ("https://example.org/users/7 and https://example.org/root", None),
        ("/rootfs, chroot/root/x, --home-dir, homepage/home", None),
    ],
)
def test_home_folders_are_recognised_in_every_form(text: str, redacted: str | None) -> None:
    assert Redaction([PATHS], ["/srv/knots", "/srv/a b"]).text(text) == (text if redacted is None else redacted)


@pytest.mark.parametrize(
    ("rule", "text", "redacted"),
    [
        ("Acme Corp", "ACME CORP, acme-corp, acme_corp, acme%20corp, acme\n corp", ", ".join(["[redacted]"] * 5)),
        ("acme-corp", "Acme Corp", "[redacted]"),
        ("Müller", "Mu\u0308ller, Müller, 014-plan-muller", "[redacted], [redacted], 014-plan-[redacted]"),
        ("日本 abc", "the abc", "the abc"),
        ("in it", "git init", "git init"),
        ("---", "a --- b", "a [redacted] b"),
    ],
)
def test_a_name_is_recognised_as_it_is_written_in_ids(rule: str, text: str, redacted: str) -> None:
    assert Redaction([rule]).text(text) == redacted


def test_names_are_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_own_names", lambda: iter(["ada", "Ada Lovelace", "box.example"]))
    rules = Redaction([NAMES])
    assert rules.text("ada_1, Ada-Lovelace, adaptive, box.example") == "[name]_1, [name], adaptive, [name]"
    assert rules.counts == {NAMES: 3}


def test_a_redacted_session_has_no_id() -> None:
    session = Session(id="001-plan-pricing-acme-co", title="Pricing, Acme Corp", path="/p", store="/s")
    redacted = Redaction(["Acme Corp"]).session(session)
    assert (redacted.id, redacted.title, redacted.path) == ("", "Pricing, [redacted]", "")
    assert Redaction([]).session(session).id == session.id


def test_every_text_of_a_message_is_redacted() -> None:
    call = Part(TOOL_CALL, id="a", name="Read", input={"acme": ["x/acme.md"]})
    (message,) = Redaction(["acme"]).messages([Message(role="user", content="Acme", parts=[call], id="acme-1")])
    assert (message.content, message.id) == ("[redacted]", "acme-1")
    assert message.parts and message.parts[0].input == {"[redacted]": ["x/[redacted].md"]}
