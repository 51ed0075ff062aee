"""The models behind `aur` and `alfred`: one streaming protocol, one module per provider.

What a conversation means belongs in `model`; who asks what belongs in `agents/talk`.
"""
