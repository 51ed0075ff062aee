"""The room of `aur` and `alfred`: the model APIs, the agents, the assistant."""
