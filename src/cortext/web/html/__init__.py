"""A conversation as HTML: what the page (`cortext web`) and the file (`cortext export --format html`) share.

Markdown, code, diffs, one message, the style sheet for reading, and the files of an export. No server, no store, no
address of a page: those belong in `web`.
"""
