"""Finding and masking secrets in text: by their form, by their shape, and by the words that announce them. Pure."""
