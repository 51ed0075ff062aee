"""Sessions as plain files: the journal, the three layouts, repair, merge, trash."""
