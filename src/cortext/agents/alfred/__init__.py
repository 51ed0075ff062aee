"""The command `alfred`: the talk with the assistant on the command line, its worker and its memory."""
