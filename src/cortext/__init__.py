"""cortext: every conversation with an AI agent is kept, found and continued, in any tool."""

__version__ = "0.1.0"
