"""msgspec, imported quickly, is msgspec: what was left for later is there when it is asked for."""

from __future__ import annotations

import sys

import pytest

from tests.support.cli import run

LOADED = "import sys; from cortext.model import quick_msgspec; quick_msgspec.load(); import msgspec; "


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(msgspec.inspect.type_info(int).gt)", "None"),
        ("from msgspec.inspect import type_info; print(type_info(str).pattern)", "None"),
        ("import msgspec.inspect as i; print(i.type_info(int).gt, i.type_info(int).gt)", "None None"),
        ("print(msgspec.json.schema(int), msgspec.json.schema(str))", "{'type': 'integer'} {'type': 'string'}"),
        ("print(msgspec.json.schema_components([int])[0])", "({'type': 'integer'},)"),
        ("print(msgspec.msgpack.decode(msgspec.msgpack.encode([1])))", "[1]"),
        ("print(msgspec.toml.decode('a = 1'))", "{'a': 1}"),
        ("import uuid; print(msgspec.json.decode(msgspec.json.encode(uuid.UUID(int=1)), type=uuid.UUID).int)", "1"),
        ("from decimal import Decimal; print(msgspec.json.encode(Decimal('1.5')))", "b'\"1.5\"'"),
        ("import platform, os; print(platform.system() == os.uname().sysname, platform.python_version()[0])", "True 3"),
        ("import typing; print(typing.ForwardRef('int'))", "ForwardRef('int')"),
        ("print('platform' in sys.modules, 'typing_extensions' in sys.modules)", "False False"),
        (
            "S = msgspec.defstruct('S', [('a', 'int | None')]); print(msgspec.json.decode(b'{\"a\": 3}', type=S).a)",
            "3",
        ),
        ("quick_msgspec.load(); print(msgspec.__version__ != '')", "True"),
    ],
)
def test_nothing_of_it_is_lost(code: str, said: str) -> None:
    ran = run([sys.executable, "-c", LOADED + code])
    assert (ran.out.strip(), ran.code) == (said, 0), ran.err


def test_what_is_there_already_stays_as_it_is() -> None:
    code = "print(type(msgspec.inspect).__name__, 'typing_extensions' in sys.modules)"
    ran = run([sys.executable, "-c", f"import uuid, typing_extensions, msgspec; {LOADED}{code}"])
    assert (ran.out.strip(), ran.code) == ("module True", 0), ran.err
