"""The command `alfred`: the talk with the assistant on the command line, its worker and its memory.

What the bot does as well belongs in `agents/assistant`.
"""
