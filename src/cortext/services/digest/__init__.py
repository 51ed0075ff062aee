"""The digest of a conversation, without a model: what a successor needs of messages that it does not get.

Taken from the messages and the tool calls themselves: every name, path and command in it is a whole word of their
decoded text, or it is left out. `calls` says what a tool call did and which commands were run, for every tool;
`files_and_names` and `asks` collect the other facts; `digest` puts them together within a number of tokens.
"""
