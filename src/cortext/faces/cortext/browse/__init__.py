"""The browser of `cortext browse`, also used to pick one of several sessions."""
