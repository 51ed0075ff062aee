"""Words made from words, without a model: sentences, summaries, digests, decisions, masked and rendered messages."""
