"""The trees of the ranker, as data; `python -m bench train_ranker` makes them."""
