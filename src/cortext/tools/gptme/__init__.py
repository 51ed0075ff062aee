"""gptme: reading its conversations and writing native sessions."""
