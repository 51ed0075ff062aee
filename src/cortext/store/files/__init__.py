"""Sessions as plain files: the journal and its lines, the three layouts, bulk import, archive, repair, merge and trash.

Only `layout_paths` knows the paths, and files are written through `cortext.io` alone.
"""
