"""Amp: reading its threads."""
