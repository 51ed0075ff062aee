"""The promises that this project has made so far, in its own words, by the ids of its specification.

The list is checked both ways (tests/test_requirements.py): every promise has a test that names it with
`@pytest.mark.req("…")`, and no test names one that is not here.
"""

from __future__ import annotations

PROMISES: dict[str, str] = {
    "STORE-01": "A session is an append-only log plus small metadata; files are the truth, all else is derived from them.",
    "STORE-02": "Every layout keeps one small protocol and passes one shared conformance suite.",
    "STORE-03": "A message is acknowledged only when it is durable; an acknowledged one is never lost, doubled, "
    "reordered, merged or invented, whatever is killed.",
    "STORE-04": "Appending never rewrites earlier lines, and costs the same late as early.",
    "STORE-05": "One writer at a time; a second one waits, then gets an error that names the holder. Readers never block.",
    "STORE-06": "A torn last line is set aside, damage loses only the damaged lines, bad bytes are kept and reported.",
    "STORE-07": "After a failed write the caller has an error and the log ends where it ended before.",
    "STORE-08": "Every message has a stable id and a sequence number; order is by sequence; times are UTC with a Z.",
    "STORE-09": "Ids are checked before a path is built, symlinks are not followed out, files are 0600 and folders 0700.",
    "STORE-10": "Metadata is replaced atomically: a reader sees the old or the new.",
    "STORE-11": "Plain UTF-8 JSON, a message a line, stable key order: a new message is one added line in a diff.",
    "STORE-13": "Tool calls, results, images by reference, thinking, model and token counts survive; plain text is always there.",
    "FIND-03": "The index follows the files by itself, costs in proportion to what changed, and is safe with many processes.",
    "SAFE-01": "Text shown on a terminal cannot control it; stored text stays as it was.",
    "SAFE-06": "A huge line, a million lines and deep nesting give a clear result in bounded memory.",
}
