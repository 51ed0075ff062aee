"""What a face needs to talk with a person at a terminal: a prompt, a streamed answer, Ctrl-C, a pager."""
