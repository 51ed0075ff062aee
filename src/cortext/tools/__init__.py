"""Adapters for the AI tools, one package each, behind the protocols in `base`; `registry` finds them.

A package begins with `adapter`: the facts about a tool, where its files are, and what its hooks report. The other
modules are loaded when they are needed: `read`, `write` and, in the larger packages, `settings` (what a project gets,
otherwise in `write`) and `live` (the program at work). What only some services know of tools does not belong here.
"""
