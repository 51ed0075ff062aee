"""What every face and room shares in a terminal: arguments, tables, colours, progress, markdown, the pager, errors.

Nothing here knows a single command; the prompt of a chat belongs in `agents/terminal`.
"""
