"""The AI tools: one adapter each, behind the protocol in `base`."""
