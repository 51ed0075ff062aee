"""The promises that this project has made so far, in its own words, by the ids of its specification.

The list is checked both ways (tests/test_requirements.py): every promise has a test that names it with
`@pytest.mark.req("…")`, and no test names one that is not here.
"""

from __future__ import annotations

PROMISES: dict[str, str] = {
    # The store
    "STORE-01": "A session is an append-only log plus small metadata; files are the truth, the rest comes back from them.",
    "STORE-02": "Every layout keeps one small protocol and passes one shared conformance suite.",
    "STORE-03": "An acknowledged message is durable: never lost, doubled, reordered, merged or invented by any kill.",
    "STORE-04": "Appending never rewrites earlier lines, and costs the same late as early.",
    "STORE-05": "One writer at a time; a second waits, then gets an error naming the holder. Readers never block.",
    "STORE-06": "A torn last line is set aside, damage loses only the damaged lines, bad bytes are kept and reported.",
    "STORE-07": "After a failed write the caller has an error and the log ends where it ended before.",
    "STORE-08": "Every message has a stable id and a number; order is by number; times are UTC with a Z.",
    "STORE-09": "Ids are checked before a path is built, symlinks not followed out; files are 0600, folders 0700.",
    "STORE-10": "Metadata is replaced atomically: a reader sees the old or the new.",
    "STORE-11": "Plain UTF-8 JSON, a message a line, stable key order: a new message is one added line in a diff.",
    "STORE-12": "Two sides that both continued a session merge without conflict or loss, and the fork is visible.",
    "STORE-13": "Tool calls, results, images by reference, thinking, model and token counts survive; plain text is there.",
    # The workspace
    "SESS-001a": "Ending or pausing a conversation, also by closing the tool, leaves its session saved.",
    "SESS-001b": "The metadata holds what makes the agent again, a summary, and the tool's own session id.",
    "SESS-001c": "One line a message, in order, with role, content, time and id.",
    "SESS-001d": "The words are the tool's own records, never a model's recollection.",
    "SESS-002a": "Stopping saves, pauses, and confirms with the title, where things stopped, and the way back.",
    "SESS-003a": "Resumable conversations are listed the last active first, to be picked by number or words.",
    "SESS-003b": "A resume is the command's current text, the context block between its marks, then the history.",
    "SESS-003c": "The whole history, or what fits with a digest of the rest; nothing is dropped silently.",
    "SESS-003d": "A command that changed since, and tools that are missing now, are told.",
    "SESS-003e": "Nothing to resume says so and how to start; plain markdown without a session is left alone.",
    "SESS-004a": "`cortext resume ID` opens the AI tool with the context loaded; --print and --dry-run show it.",
    "SESS-004b": "Words find a conversation by title, summary and what was said, give or take a typing error.",
    "SESS-004c": "`cortext resume --list` shows id, type, title, status and last activity, filtered, also as JSON.",
    "SESS-004d": "A resume is native: real turns in the tool's own store, from any of the four to any, with a receipt.",
    "SESS-005a": "Status changes only along its allowed ways.",
    "SESS-005b": "A quiet conversation is saved as paused, and the user is told at the next sight.",
    "SESS-005c": "A completed conversation is resumed only by an explicit override.",
    "SESS-005d": "Natural words of leaving pause it; a long talk gets one offer to save; a no is respected.",
    "SESS-006a": "Commits hold the conversation and nothing else, at pause, completion or save; a failing one is explained.",
    "SESS-006b": "Sessions can be kept out of git.",
    "SESS-007": "Types with command, template and registry entry; init, upgrade and uninstall respect what the user edited.",
    "SESS-008": "Older messages move to an archive behind a summary that covers them; what goes is shown first.",
    "SESS-009": "Tokens are counted per message and per session.",
    # The AI tools
    "TOOL-01": "Claude Code, Gemini CLI, OpenCode and Codex each have one adapter behind one protocol.",
    "TOOL-02": "Each adapter is proven with the real program against a model server that records what it was sent.",
    "TOOL-03": "Import takes in every transcript, sync only what is new; what the tool deletes stays; twice changes nothing.",
    "TOOL-04": "A damaged or unknown record is counted and reported, never fatal.",
    "TOOL-05": "What must happen, happens by hook or command, not by asking the model.",
    # Finding, safety, looks
    "FIND-03": "The list follows the files by itself, in proportion to what changed, safely with many processes.",
    "SAFE-01": "Text shown on a terminal cannot control it; stored text stays as it was.",
    "SAFE-02": "Secrets are masked before a commit, an export or a resume; the user is told; the session still resumes.",
    "SAFE-03": "Restored history is data, never system text; recorded tool calls are not run again.",
    "SAFE-04": "Settings in a repository are not trusted with more than looks until the user says so.",
    "SAFE-06": "A huge line, a million lines and deep nesting give a clear result in bounded memory.",
    "LOOK-01": "Help, errors and tables are short and plain when piped; errors say what to do; exit codes are documented.",
    "LOOK-03": "Completion for bash, zsh and fish: commands and session ids.",
}
