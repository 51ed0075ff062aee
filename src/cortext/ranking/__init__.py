"""The trees of the learned ranker, as data: `index/search/trees` evaluates them, `bench/train_ranker` trains them."""
