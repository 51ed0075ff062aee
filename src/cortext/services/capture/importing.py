"""An import from its start to its report: which transcripts changed, who captures them, and what became of each."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from cortext.services.capture import uncaptured, workers
from cortext.services.capture.capture import Capture, Captured, ToolReport
from cortext.services.capture.intake import Tell, Work, outcomes, reason_of
from cortext.store.capabilities import Bulks
from cortext.tools.base import Transcript, TranscriptSource


def note_failure(reports: dict[str, ToolReport], tool: str, key: str, path: str, why: str) -> None:
    """Tell that a transcript (or, without a key, a tool's store) could not be taken in, now and until it is."""
    report = reports.setdefault(tool, ToolReport(tool=tool))
    report.failed.append(f"{path}: {uncaptured.without_path(why, path)}" if path else why)
    uncaptured.failed(tool, key, path, why)


def capture_all(capture: Capture, work: Work, reports: dict[str, ToolReport]) -> Generator[Transcript, None, None]:
    """Capture these transcripts, yielding each when it is done; one that fails stops nothing."""
    changed: list[tuple[TranscriptSource, Transcript]] = []
    marked = {(mark.tool, mark.key) for mark in uncaptured.marks()}
    for tool, transcript in work:
        report = reports.setdefault(tool.name, ToolReport(tool=tool.name))
        report.transcripts += 1
        try:
            unchanged = capture.unchanged(transcript)
        except Exception as error:  # noqa: BLE001 (its name is odd: the others must not suffer)
            note_failure(reports, tool.name, transcript.key, transcript.path, reason_of(error))
            continue
        if unchanged:
            if (tool.name, transcript.key) in marked:  # a hook failed, and somebody else has captured it since
                uncaptured.done(tool.name, [transcript.key])
            report.unchanged += 1
            yield transcript
        else:
            changed.append((tool, transcript))
    taken: dict[str, list[str]] = {}

    def tell(tool: TranscriptSource, transcript: Transcript, outcome: Captured | str) -> None:
        if not isinstance(outcome, Captured):
            note_failure(reports, tool.name, transcript.key, transcript.path, outcome)
            return
        reports[tool.name].add(outcome)
        if outcome.counts.damaged and not outcome.session_id:  # nothing but damage: there is no session of it
            kinds = ", ".join(f"{kind} × {count}" for kind, count in sorted(outcome.counts.damaged.items()))
            uncaptured.failed(tool.name, transcript.key, transcript.path, f"nothing in it could be read ({kinds})")
        else:
            taken.setdefault(tool.name, []).append(transcript.key)

    try:
        yield from _side_by_side(capture, changed, tell)
    finally:
        for name, report in reports.items():
            uncaptured.done(name, [*taken.get(name, ()), *(() if report.failed else ("",))])


def _side_by_side(capture: Capture, work: workers.New, tell: Tell) -> Iterator[Transcript]:
    """The same, by several processes for what is new where there is much of it."""
    if isinstance(capture.home.store, Bulks):
        new = [item for item in work if _is_new(capture, item[1])]
        count = workers.worker_count(new)
        if count > 1:
            yield from workers.outcomes_of_workers(capture, new, count, tell)
            taken = {id(transcript) for _, transcript in new}
            work = [item for item in work if id(item[1]) not in taken]
    yield from outcomes(capture, work, tell)


def _is_new(capture: Capture, transcript: Transcript) -> bool:
    try:
        return capture.new_entry(transcript) is not None
    except Exception:  # noqa: BLE001 (told when it is tried by itself)
        return False
