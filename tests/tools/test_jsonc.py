"""The editor for JSON with comments changes no byte outside the edited value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.testing.table import every_row
from cortext.tools.shared.jsonc import JsonError, JsonText, parse, read_object

COMMENTED = '{\n  "a": 1, // one\n  "b": 2,\n  "c": 3 // three\n}\n'

# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5e3, null, true]}', {"a": [1, 2500.0, None, True]}),
        ('\ufeff{"a": "ü"}', {"a": "ü"}),
        ('// mine\n{/* a "quoted", comment */ "url": "http://x/*y*/", // why\n "list": [1, 2,],\n}\n', None),
        ('{"a": "\\" // no comment"}', {"a": '" // no comment'}),
        ("[]//x", []),
        ('{"a": 1, "a": 2,}', {"a": 2}),
    ],
)
def test_comments_trailing_commas_and_a_byte_order_mark_are_read(text: str, value: Any) -> None:
    assert parse(text) == (value if value is not None else {"url": "http://x/*y*/", "list": [1, 2]})
    assert JsonText(text).value == parse(text)


@every_row(
    "text", ["", "{", '{"a" 1}', '{"a": }', "{1: 2}", "[1 2]", "{} {}", "{a: 1}", "[,]", '{"a": 1,,}', '"\n"', "/* {}"]
)
def test_invalid_json_is_an_error(text: str) -> None:
    with pytest.raises(JsonError):
        parse(text)


def test_deep_nesting_is_an_error() -> None:
    for text in ("[" * 100_000, "/**/" + "[" * 100_000):
        with pytest.raises(JsonError):
            parse(text)


def test_an_error_names_its_line() -> None:
    with pytest.raises(JsonError, match="line 3: a comma"):
        parse('{\n  "a": 1\n  "b": 2\n}')


def test_plain_json_can_be_required() -> None:
    with pytest.raises(JsonError, match="comment"):
        JsonText("{} // mine", comments=False)
    with pytest.raises(JsonError, match="line 2: a trailing comma"):
        JsonText('{\n"a": 1,\n}', trailing_commas=False)


def test_a_broken_or_missing_file_reads_as_an_empty_object(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    assert read_object(str(path)) == {}
    for raw, value in ((b"{", {}), (b"\xff", {}), (b"[]", {}), (b'{"a": 1,}', {"a": 1})):
        path.write_bytes(raw)
        assert read_object(str(path)) == value


# ── editing ──────────────────────────────────────────────────────────────────────────────────────────


def removed(text: str, *path: str | int) -> str:
    document = JsonText(text)
    document.remove(path)
    return document.text


def test_removing_keeps_comments() -> None:
    assert removed(COMMENTED, "a") == '{\n  // one\n  "b": 2,\n  "c": 3 // three\n}\n'
    assert removed(COMMENTED, "b") == '{\n  "a": 1, // one\n  "c": 3 // three\n}\n'
    assert removed(COMMENTED, "c") == '{\n  "a": 1, // one\n  "b": 2 // three\n}\n'
    assert removed(COMMENTED, "d") == removed(COMMENTED, "a", "x") == COMMENTED
    assert removed('{"a": 1, // one\n "b": 2}', "b") == '{"a": 1 // one\n}'
    assert removed('{ // none\n "a": 1}', "a") == "{ // none\n}"
    assert removed("[1, 2, 3]", 0) == "[2, 3]"
    assert removed("[1, 2,]", 1) == "[1,]"


def test_a_new_member_follows_the_style_of_the_text() -> None:
    document = JsonText('{\r\n\t"a": {"x": 1}, // one\r\n\t"b": []\r\n}\r\n')
    document.set(("c", "d"), [1])
    document.append(("b",), {"y": 2})
    document.set(("a", "z"), None)

    assert document.text == (
        '{\r\n\t"a": {"x": 1, "z": null}, // one\r\n\t"b": [\r\n\t\t{\r\n\t\t\t"y": 2\r\n\t\t}\r\n\t],\r\n'
        '\t"c": {\r\n\t\t"d": [\r\n\t\t\t1\r\n\t\t]\r\n\t}\r\n}\r\n'
    )


def test_a_value_is_replaced_in_place() -> None:
    document = JsonText('{\n  "a": {"b": true}, // why\n  "c": 1.50\n}')
    document.set(("a", "b"), 1)
    assert document.text == '{\n  "a": {"b": 1}, // why\n  "c": 1.50\n}'
    document.set(("c",), 1.5)
    assert document.text.endswith('"c": 1.50\n}')


@pytest.mark.parametrize(
    ("text", "path"),
    [("[]", ("a",)), ('{"a": 1}', ("a", "b")), ('{"a": []}', ("a", "b")), ('{"a": {}, "a": {}}', ("a", "b"))],
)
def test_an_edit_through_the_wrong_type_is_an_error(text: str, path: tuple[str, ...]) -> None:
    document = JsonText(text)
    with pytest.raises(JsonError):
        document.set(path, 1)
    assert document.text == text


def test_appending_to_a_value_that_is_no_list_is_an_error() -> None:
    with pytest.raises(JsonError, match=r"a\.b is not a list"):
        JsonText('{"a": {"b": {}}}').append(("a", "b"), 1)


# ── any text ─────────────────────────────────────────────────────────────────────────────────────────

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_blanks = st.sampled_from(["", "", "", " ", "\n", "\r\n  ", "\n\t", "/* a, [b] */", " // c } \n", "//\r\n", "\n    "])


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """Draw a JSON text of a value with white space, comments and trailing commas anywhere."""
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    items: list[str] = []
    for item in value.items() if isinstance(value, dict) else ((None, item) for item in value):
        name = f"{json.dumps(item[0])}{draw(_blanks)}:{draw(_blanks)}" if item[0] is not None else ""
        items.append(f"{draw(_blanks)}{name}{draw(texts(item[1]))}{draw(_blanks)}")
    trailing = draw(st.booleans())
    end = ("," if items and trailing else "") + (draw(_blanks) if trailing or not items else "")
    body = ",".join(items) + end
    return f"{{{body}}}" if isinstance(value, dict) else f"[{body}]"


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, Any]:
    value = draw(st.dictionaries(st.text(max_size=4), _values, max_size=4))
    if draw(st.booleans()):
        text = json.dumps(value, indent=draw(st.sampled_from([None, 1, 2, 4, "\t"])))
        return draw(_blanks) + text + draw(_blanks), value
    return draw(st.sampled_from(["", "\ufeff"])) + draw(_blanks) + draw(texts(value)) + draw(_blanks), value


def containers(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [found for key, item in items for found in containers(item, (*path, key))]
    return [path, *inner] if isinstance(value, dict | list) else []


@given(documents(), _values, st.data())
def test_removing_an_added_value_restores_every_byte(
    document: tuple[str, Any], value: Any, data: st.DataObject
) -> None:
    text, before = document
    edited = JsonText(text)
    assert edited.value == before
    holder = data.draw(st.sampled_from(containers(before)))
    container = edited.get(holder)
    key: str | int = len(container) if isinstance(container, list) else "added"

    if isinstance(container, list):
        edited.append(holder, value)
    else:
        edited.set((*holder, key), value)
    assert edited.get((*holder, key)) == value
    edited.set((*holder, key), {"x": [1]})
    assert edited.get((*holder, key, "x", 0)) == 1
    assert parse(edited.text) == edited.value

    edited.remove((*holder, key))
    assert edited.text == text


@given(documents(), st.data())
def test_removing_changes_no_other_value(document: tuple[str, Any], data: st.DataObject) -> None:
    text, value = document
    edited = JsonText(text)
    holder = data.draw(st.sampled_from(containers(value)))
    container = edited.get(holder)
    if container:
        keys = list(container) if isinstance(container, dict) else list(range(len(container)))
        key = data.draw(st.sampled_from(keys))
        edited.remove((*holder, key))
        expected = parse(text)
        found = expected
        for step in holder:
            found = found[step]
        found.pop(key)
        value = expected
    assert edited.value == value
