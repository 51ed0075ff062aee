"""Search by words and by meaning: indexing, querying and ranking. Disposable, like all of the index.

What a hit looks like to a person, and what a server finds, belongs in `services/library`.
"""
