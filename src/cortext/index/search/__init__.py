"""Search: words, meaning, ranking, and keeping both up to date. Disposable, like all of the index."""
