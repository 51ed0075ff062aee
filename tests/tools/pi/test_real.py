"""The adapter with the real Pi and a model server on loopback that records its requests."""

from __future__ import annotations

import pytest
from tests.support.runners import Pi, Tool
from tests.tools.real_flow import RealFlow

pytestmark = pytest.mark.real_tool


class TestPi(RealFlow):
    name = "pi"
    sessions = ".pi/agent/sessions"

    @classmethod
    def choose_another_model(cls, tool: Tool) -> None:
        assert isinstance(tool, Pi)
        tool.choose_model("another", "another-model")
