"""Taking in what was said in AI tools: transcripts found, read, checked and stored. `capture` handles one transcript,
`intake` many new ones together, `workers` several processes, `importing` a whole run with its report. How a tool
writes its transcripts is not known here but in `tools`.
"""
