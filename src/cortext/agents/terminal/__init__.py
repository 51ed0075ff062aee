"""A chat at a terminal: the prompt, the streamed answer, Ctrl-C, the pager."""
