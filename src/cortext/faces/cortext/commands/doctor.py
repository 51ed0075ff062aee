"""`cortext doctor`: check every store that we know."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.services.capture import uncaptured
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext doctor",
        description="Check every store that is known on this machine: read each session whole, tell what is "
        "damaged and what to do about it. Nothing is changed.",
        epilog="Exit code 0: all is well (warnings aside); 3: something is damaged, or could not be captured.",
    )
    made.add_argument("--json", action="store_true", help="the findings as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Examine, print, and exit 3 where something is damaged."""
    # The usual first sight of cortext is a bare `doctor`: it is answered without loading what it does not need.
    as_json = bool(arguments) and parser().parse_args(arguments).json
    locations = Stores().locations()
    if not as_json:
        from cortext.faces.cortext.commands._path import warn_if_not_on_path

        warn_if_not_on_path()
    if not any(location.exists for location in locations) and not uncaptured.failures():
        print("[]" if as_json else "Nothing is stored yet, so nothing is wrong. Start with `cortext demo`.")
        return 0
    from cortext.faces.cortext.commands._doctor_report import run_full

    return run_full(as_json=as_json)
