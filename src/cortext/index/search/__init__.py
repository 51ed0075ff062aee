"""Search by words and by meaning: indexing, querying and ranking. Disposable, like all of the index."""
