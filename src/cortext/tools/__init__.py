"""Adapters for the AI tools, one package each, behind the protocols in `base`."""
