"""What every face in a terminal shares: tables, colours, progress, markdown, the pager, questions."""
