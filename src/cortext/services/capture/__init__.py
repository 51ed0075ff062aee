"""Capturing what was said in AI tools: finding, reading, checking and storing transcripts.

`capture` handles one transcript, `intake` many new ones together, and `importing` a whole run with its report, in
several processes if there is much to do. How a tool writes its transcripts belongs in `tools`.
"""
