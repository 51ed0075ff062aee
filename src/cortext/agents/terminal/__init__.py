"""A chat at a terminal: the prompt, the streamed answer, Ctrl-C.

What a command without a chat needs belongs in `faces/terminal`: tables, colours, the pager.
"""
