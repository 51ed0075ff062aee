"""Reading what is stored: lists, search, recall, statistics and export; and where a session is that git took away.

Capturing transcripts belongs in `services/capture`, changing conversations in `services/workspace`, and copying
stores to a server in `server`.
"""
