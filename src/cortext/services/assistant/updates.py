"""The messenger's updates for the faces: see store.assistant."""

from __future__ import annotations

from cortext.store.assistant import Taken, Updates

__all__ = ["Taken", "Updates"]
