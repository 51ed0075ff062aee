"""The room of `aur` and `alfred`: model APIs, the talk with them, agents, the assistant, and their faces.

The core does not import it. What another room or the core needs belongs there, not here.
"""
