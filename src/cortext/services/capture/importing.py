"""An import from start to report: find the transcripts that changed, capture them, and record the failures."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from cortext.services.capture import uncaptured, workers
from cortext.services.capture.capture import Capture, ToolReport
from cortext.services.capture.first_reading import Captured
from cortext.services.capture.intake import Report, Work, capture_each, reason_of
from cortext.store.capabilities import Bulks
from cortext.tools.base import Transcript, TranscriptSource


def note_failure(reports: dict[str, ToolReport], tool: str, key: str, path: str, why: str) -> None:
    """Report that a transcript (or, without a key, a tool's store) could not be captured, now and until it is."""
    report = reports.setdefault(tool, ToolReport(tool=tool))
    report.failed.append(f"{path}: {uncaptured.without_path(why, path)}" if path else why)
    uncaptured.record(tool, key, path, why)


def capture_all(
    capture: Capture, work: Work, reports: dict[str, ToolReport], *, share: bool = True
) -> Generator[Transcript, None, None]:
    """Capture these transcripts and yield each when it is done. One that fails does not stop the others.

    With `share`, several processes may share the work; a process with threads of another library must not fork.
    """
    changed: list[tuple[TranscriptSource, Transcript]] = []
    failed_before = {(failure.tool, failure.key) for failure in uncaptured.failures()}
    for tool, transcript in work:
        report = reports.setdefault(tool.name, ToolReport(tool=tool.name))
        report.transcripts += 1
        try:
            unchanged = capture.unchanged(transcript)
        except Exception as error:  # noqa: BLE001 (an unusable key must not stop the others)
            note_failure(reports, tool.name, transcript.key, transcript.path, reason_of(error))
            continue
        if unchanged:
            if (tool.name, transcript.key) in failed_before:  # another process has captured it since
                uncaptured.clear(tool.name, [transcript.key])
            report.unchanged += 1
            yield transcript
        else:
            changed.append((tool, transcript))
    captured: dict[str, list[str]] = {}

    def report_result(tool: TranscriptSource, transcript: Transcript, result: Captured | str) -> None:
        if not isinstance(result, Captured):
            note_failure(reports, tool.name, transcript.key, transcript.path, result)
            return
        reports[tool.name].add(result)
        if result.counts.damaged and not result.session_id:  # nothing could be read, so there is no session
            kinds = ", ".join(f"{kind} × {count}" for kind, count in sorted(result.counts.damaged.items()))
            uncaptured.record(tool.name, transcript.key, transcript.path, f"nothing in it could be read ({kinds})")
        else:
            captured.setdefault(tool.name, []).append(transcript.key)

    try:
        yield from _capture_changed(capture, changed, report_result, share=share)
    finally:
        for name, report in reports.items():
            uncaptured.clear(name, [*captured.get(name, ()), *(() if report.failed else ("",))])


def _capture_changed(capture: Capture, work: workers.New, report: Report, *, share: bool) -> Iterator[Transcript]:
    """Capture these transcripts, with several processes if many bytes of them are new."""
    if share and isinstance(capture.home.store, Bulks):
        new = [item for item in work if _is_new(capture, item[1])]
        count = workers.worker_count(new)
        if count > 1:
            yield from workers.capture_with_workers(capture, new, count, report)
            done = {id(transcript) for _, transcript in new}
            work = [item for item in work if id(item[1]) not in done]
    yield from capture_each(capture, work, report)


def _is_new(capture: Capture, transcript: Transcript) -> bool:
    try:
        return capture.new_entry(transcript) is not None
    except Exception:  # noqa: BLE001 (reported when it is captured)
        return False
