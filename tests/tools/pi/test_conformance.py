"""The adapter for Pi passes the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.pi import corpus

from cortext.testing import LineSamples, LineToolConformance
from cortext.tools.base import NativeWriter
from cortext.tools.pi.adapter import Pi

pytestmark = pytest.mark.req("TOOL-01", "TOOL-03", "TOOL-04", "SESS-001d", "SESS-004d", "STORE-13")


class Samples(LineSamples):
    project = corpus.PROJECT
    invalid_cursors = ({"offset": 10**9, "seen": ""}, {"offset": 5, "seen": "x"})
    lines = corpus.everyday().lines
    messages = corpus.EVERYDAY
    unknown = (
        b'{"type":"hologram","id":"u1","parentId":null}',
        b"{}",
        b'{"type":"message","id":"u2","parentId":null,"message":{"role":"robot","content":"beep"}}',
    )
    broken = (b'{"type":"message","id":"x","parentId":null,"message":{"role":"user","content":17}}',)

    def tool(self, home: Path) -> NativeWriter:
        return Pi(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / ".pi/agent/sessions/--work-boats--" / corpus.NAME


class TestPi(LineToolConformance):
    samples = Samples()
