"""The models behind `aur` and `alfred`: one streaming protocol, one module a provider."""
