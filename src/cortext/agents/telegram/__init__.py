"""The assistant as a Telegram bot: receiving updates, answering them, and sending the answers.

What is not specific to Telegram belongs in `agents/assistant`.
"""
