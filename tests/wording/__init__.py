"""The wording that users read, as text files: a change of words is reviewed as a diff."""
