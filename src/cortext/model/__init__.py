"""The nouns of the product, pure: no files, no network, and no time except through `clock`."""
