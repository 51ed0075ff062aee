"""The command `aur`: agents in the terminal, one-shot questions, and their sessions."""
