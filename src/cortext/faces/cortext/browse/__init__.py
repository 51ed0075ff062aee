"""The browser of `cortext browse`, also used to pick one of several sessions.

What is found, and in which order, belongs in `services/library`.
"""
