"""The digest of a conversation, without a model: what a successor needs of messages that it does not get.

Taken from the messages and the tool calls themselves: every name, path and command in it is a whole word of their
decoded text (`words`), or it is left out. `calls` says what a tool call did, for every tool; `files`, `commands`,
`names`, `asks`, `rules` and `unfinished` each collect one kind of fact; `digest` puts them together within a number of
tokens.
"""
