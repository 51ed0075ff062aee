"""The templates of all pages: everything that is inserted is escaped, unless our own code marked it as HTML.

And it has no control character and none that turns the direction of text, so a title cannot pass for another one. What
the field of a form sends back is therefore compared with what was shown (`pages.stored`).
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined

from cortext.model import clock
from cortext.safety import terminal


@cache
def environment() -> Environment:
    """Return the one environment; templates are named by their package: `html/…` and `web/…`."""
    loaders = {name: PackageLoader(package) for name, package in (("html", "cortext.web.html"), ("web", "cortext.web"))}
    made = Environment(
        loader=PrefixLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    made.filters |= {"ago": clock.ago, "short_time": clock.short, "number": "{:,}".format}
    return made


def _visible(value: object) -> object:
    return terminal.block(value) if type(value) is str else value
