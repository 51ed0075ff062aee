"""Paths inside texts are mapped to the project's new folder: whole paths, and nothing else."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model.message import TEXT, TOOL_CALL, TOOL_RESULT, Message, Part, joined_text
from cortext.services.text.paths import PathMap
from cortext.testing.table import every_row

OLD, NEW = "/work/pond", "/home/ann/lake"
pytestmark = pytest.mark.req("TOOL-09")


def mapped(text: str, old: str = OLD, new: str = NEW, home: str = "/home/ann") -> str:
    return PathMap([old], new, home).text(text)


@every_row(
    ("before", "after"),
    [
        ("/work/pond", "/home/ann/lake"),
        ("see /work/pond/src/a.py:12.", "see /home/ann/lake/src/a.py:12."),
        ("It is in /work/pond.", "It is in /home/ann/lake."),
        ("In /work/pond... and (/work/pond)", "In /home/ann/lake... and (/home/ann/lake)"),
        ('{"path": "/work/pond"}', '{"path": "/home/ann/lake"}'),
        ("a=/work/pond;b='/work/pond/x'", "a=/home/ann/lake;b='/home/ann/lake/x'"),
        ("PATH=/bin:/work/pond/bin:/usr/bin", "PATH=/bin:/home/ann/lake/bin:/usr/bin"),
        ("cc -I/work/pond/include", "cc -I/home/ann/lake/include"),
        ("ann@host:/work/pond$ ls", "ann@host:/home/ann/lake$ ls"),
        ("read @/work/pond/notes.md", "read @/home/ann/lake/notes.md"),
        ("@/work/pond/notes.md", "@/home/ann/lake/notes.md"),
        ("file:///work/pond/a.html", "file:///home/ann/lake/a.html"),
        ("+/work/pond/a\n-/work/pond/b", "+/home/ann/lake/a\n-/home/ann/lake/b"),
        ("\x1b[36m/work/pond/a\x1b[0m", "\x1b[36m/home/ann/lake/a\x1b[0m"),
        (r'{"out": "a\n/work/pond/b\n"}', r'{"out": "a\n/home/ann/lake/b\n"}'),
        (r'{"out": "\/work\/pond\/b"}', r'{"out": "\/home\/ann\/lake\/b"}'),
        ("<cwd>/work/pond</cwd>", "<cwd>/home/ann/lake</cwd>"),
    ],
)
def test_a_path_is_mapped_wherever_it_stands(before: str, after: str) -> None:
    assert mapped(before) == after


@every_row(
    "text",
    [
        "/work/pondside",
        "/work/pond-2/a",
        "/work/pond_old",
        "/work/pond.git",
        "/work/pond.backup/a",
        "/work/pond%20two",
        r"/work/pond\ two",
        r"/work/pond\u00e9e",
        "/work/pondée",
        "/work/ponder",
        "/other/work/pond",
        "work/pond",
        "./work/pond",
        "../work/pond",
        "~/work/pond",
        "${HOME}/work/pond",
        "$(pwd)/work/pond",
        "**/work/pond",
        "http://localhost/work/pond",
        "http://localhost:80/work/pond",
        "no path at all",
    ],
)
def test_another_path_stays_as_it_is(text: str) -> None:
    assert mapped(text) == text


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("/home/ann/pond", "/home/ann/lake", "cd ~/pond/src", "cd ~/lake/src"),
        ("/home/ann/pond", "/srv/lake", "cd ~/pond/src", "cd /srv/lake/src"),
        ("/home/bob/pond", "/home/ann/lake", "cd ~/pond; ls /home/bob/pond", "cd ~/lake; ls /home/ann/lake"),
        ("/Users/bob/pond", "/home/ann/pond", "~/pond or /Users/bob/pond", "~/pond or /home/ann/pond"),
        ("/root/pond", "/home/ann/pond", "~/pond or /root/pond/a", "~/pond or /home/ann/pond/a"),
        ("/home/ann/pond", "/home/ann/lake", "~/pondside ~/other/pond", "~/pondside ~/other/pond"),
    ],
)
def test_a_path_in_a_home_folder_is_mapped_in_both_forms(old: str, new: str, before: str, after: str) -> None:
    assert mapped(before, old, new) == after


def test_the_escapes_of_json_stay_escapes() -> None:
    old, new = "/work/päd", "/work/größe"
    text = json.dumps({"path": f"{old}/a", "more": [old]})
    assert "\\u" in text
    assert json.loads(mapped(text, old, new)) == {"path": f"{new}/a", "more": [new]}
    assert "ß" not in mapped(text, old, new), "it is still ASCII"


def test_several_old_folders_lead_to_the_new_one() -> None:
    paths = PathMap(["/a/pond", "/a/pond/moved", "/b/pond"], "/c/pond")
    assert paths.text("/a/pond/x /a/pond/moved/x /b/pond/x /c/pond/x") == "/c/pond/x /c/pond/x /c/pond/x /c/pond/x"


def test_a_project_that_moved_below_its_old_folder_is_mapped_once() -> None:
    paths = PathMap(["/work"], "/work/pond")
    assert paths.text("/work/a /work/pond/b") == "/work/pond/a /work/pond/b"


@pytest.mark.parametrize("old", ["", "/", NEW])
def test_what_names_no_other_folder_maps_nothing(old: str) -> None:
    assert mapped("/ /work /home/ann/lake/a", old) == "/ /work /home/ann/lake/a"


def test_a_message_is_mapped_in_all_its_parts_and_counted_once() -> None:
    message = Message(
        role="assistant",
        id="m1",
        content="Look at /work/pond/a.",
        parts=[
            Part(TEXT, text="Look at /work/pond/a."),
            Part(TOOL_CALL, id="c1", name="read", input={"path": "/work/pond/a", "/work/pond/b": ["/work/pond"]}),
            Part(TOOL_RESULT, call_id="c1", output="/work/pondside, /work/pond/c"),
        ],
        extra={"kept": "/work/pond"},
    )
    paths = PathMap([OLD], NEW)
    after = paths.message(message)
    assert after.content == "Look at /home/ann/lake/a."
    assert after.parts is not None
    assert after.parts[0].text == after.content
    assert after.parts[1].input == {"path": f"{NEW}/a", f"{NEW}/b": [NEW]}
    assert after.parts[2].output == f"/work/pondside, {NEW}/c"
    assert (after.id, after.extra) == ("m1", message.extra)
    assert paths.counts_in([message]) == {OLD: 5}
    assert message.content == "Look at /work/pond/a.", "the original is not changed"
    other = Message(role="user", id="m2", content="Nothing here.")
    assert paths.message(other) is other
    assert paths.counts_in([other]) == {}


# ── any text ─────────────────────────────────────────────────────────────────────────────────────────

names = st.text(st.characters(categories=("L", "N"), include_characters="-_ .ä"), min_size=1, max_size=6).filter(
    lambda name: name.strip(" .-") == name
)
folders = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
pieces = st.one_of(
    st.sampled_from(["OLD", "NEW", "/", ".", "-", " ", "\n", '"', "\\", "~", "x", "é", ":", "@", "(", "\\n", "%20"]),
    st.text(max_size=4),
)


def _nested(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


@given(folders, folders, st.lists(pieces, max_size=12))
def test_mapping_twice_changes_nothing_more(old: str, new: str, text: list[str]) -> None:
    if _nested(old, new):
        return
    words = "".join({"OLD": old, "NEW": new}.get(piece, piece) for piece in text)
    paths = PathMap([old], new)
    once = paths.text(words)
    assert paths.text(once) == once


@given(folders, folders, st.lists(pieces.filter(lambda piece: piece != "NEW"), max_size=12))
def test_mapping_back_gives_the_original(old: str, new: str, text: list[str]) -> None:
    words = "".join({"OLD": old}.get(piece, piece) for piece in text)
    if _nested(old, new) or new in words:
        return
    assert PathMap([new], old).text(PathMap([old], new).text(words)) == words


@given(folders, folders, st.text(st.characters(categories=("L", "N"), include_characters="_-"), min_size=1))
def test_no_longer_name_is_mapped(old: str, new: str, more: str) -> None:
    for text in (old + more, f"{old}.{more}", f"x{more}{old}", f"./{more}{old}/a"):
        assert PathMap([old], new).text(text) == text


@given(folders, folders, st.lists(st.lists(pieces, max_size=6), min_size=1, max_size=3))
def test_the_content_stays_the_text_of_the_parts(old: str, new: str, texts: list[list[str]]) -> None:
    parts = [
        Part(TEXT, text="".join({"OLD": old, "NEW": new}.get(piece, piece) for piece in pieces)) for pieces in texts
    ]
    after = PathMap([old], new).message(Message(role="assistant", id="m", content=joined_text(parts), parts=parts))
    assert after.content == joined_text(after.parts or [])


def test_no_text_makes_the_search_slow() -> None:
    paths = PathMap([OLD], NEW)
    assert paths.text("/work/" * 200_000) == "/work/" * 200_000
    assert len(re.findall("lake", paths.text("/work/pond " * 100_000))) == 100_000
