"""Reading what is stored: lists, search, recall, statistics, export and copies between stores.

Capturing transcripts belongs in `services/capture`, changing conversations in `services/workspace`.
"""
