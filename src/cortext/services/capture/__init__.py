"""Capturing what was said in AI tools: finding, reading, checking and storing transcripts.

`capture` handles one transcript, `intake` many new ones together, `workers` several processes, and `importing` a whole
run with its report. How a tool writes its transcripts belongs in `tools`.
"""
