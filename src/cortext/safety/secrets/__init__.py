"""Finding and masking secrets in text: rules, shapes, words before them. Pure."""
