"""Hints before the user repeats something: what an earlier conversation says about this very error, file or question.

Opt-in (`workspace.recall`). Silence is the default: a hint needs more than a topic in common.
"""
