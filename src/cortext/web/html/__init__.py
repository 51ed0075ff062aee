"""A conversation as HTML: what the page (`cortext web`) and the file (`cortext export --format html`) share.

Markdown, code, diffs, one message, and the style sheet for reading. No server, no store, no address of a page.
"""
