"""The trees of the ranker, as data; `python -m bench train_ranker` makes them.

The features that they weigh belong in `index/search`.
"""
