"""The truth: sessions as append-only logs. `base` is the protocol; the layouts are beside it."""
