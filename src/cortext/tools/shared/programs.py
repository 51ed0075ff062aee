"""Where an AI tool's program is."""

from __future__ import annotations

import os


def program_on(path: str, name: str) -> str | None:
    """The program of this name, as `shutil.which` finds it: importing that takes longer than all the looking."""
    for folder in path.split(os.pathsep) if path else ():
        place = os.path.join(folder, name)
        if os.access(place, os.X_OK) and not os.path.isdir(place):
            return place
    return None
