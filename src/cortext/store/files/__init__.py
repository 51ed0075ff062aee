"""Sessions as plain files: the journal and its lines, the three layouts, bulk import, archive, repair, merge and trash.
`layout_paths` is the only module that spells the paths; files are written through `cortext.io` alone.
"""
