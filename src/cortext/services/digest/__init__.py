"""The digest of a conversation, without a model: what a successor needs of messages that it does not get.

Taken from the messages and the tool calls themselves, so every name in it is exact. `calls` says what a tool call did,
for every tool; `files`, `commands`, `names`, `asks`, `rules` and `unfinished` each collect one kind of fact; `digest`
puts them together within a number of tokens.
"""
