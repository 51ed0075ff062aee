"""The nouns of the product, pure: no file, no clock but `clock`, no network."""
