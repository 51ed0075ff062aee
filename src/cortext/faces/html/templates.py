"""The templates of all pages: everything that is inserted is escaped, unless our own code marked it as HTML."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined

from cortext.model import clock


@cache
def environment() -> Environment:
    """Return the one environment; templates are named by their package: `html/…` and `web/…`."""
    loaders = {name: PackageLoader(f"cortext.faces.{name}") for name in ("html", "web")}
    made = Environment(
        loader=PrefixLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"ago": clock.ago, "short_time": clock.short, "number": "{:,}".format}
    return made
