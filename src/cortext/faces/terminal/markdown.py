"""Markdown on a terminal while it is streamed: styled word by word, folded at blanks, never redrawn.

The text is shown as it is: nothing is dropped or moved, only colours and line breaks are added. So a wrong guess about
the markdown costs a colour and nothing else, it works over ssh and in a log, and a copied answer is still markdown.
Every part goes through safety/terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cortext.faces.terminal.table import width
from cortext.safety import terminal

# Blanks, one wide character (text without blanks folds anywhere), or a word.
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef"
_TOKENS = re.compile(f"([^\\S\n]+)|([{_WIDE}])|([^\\s{_WIDE}]+)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LEAD = re.compile(r"([^\S\n]*)(#{1,6}(?=\s)|>|[-*+](?=\s)|\d{1,3}[.)](?=\s)|\|)?")
_DELIMITERS = re.compile(r"(`+|\*\*)")
_LONGEST = 48  # a word of this many columns is shown before it is complete

_CODES = {"bold": "1", "dim": "2", "code": "36", "mark": "33"}


class Markdown:
    """`feed` it the stream, then `end` it. Without colour and width it only makes the text safe."""

    def __init__(self, write: Callable[[str], object], *, colour: bool, columns: int) -> None:
        self._write, self._colour, self._columns = write, colour, columns
        self._held = ""  # received, but cannot be shown yet
        self._begun = False  # whether the kind of the current line is known
        self._fence = ""  # the fence that opened the current code block
        self._line_style = ""
        self._fold, self._indent, self._column = True, 0, 0
        self._blank = ""
        self._bold, self._code = False, ""
        self._style = ""
        self._open_line = False
        self.shown = False  # whether anything was shown

    def feed(self, text: str) -> None:
        """Show more of the answer."""
        text = self._held + text
        # A carriage return may be half of a line ending.
        self._held = "\r" if text.endswith("\r") else ""
        text = terminal.block(text.removesuffix("\r"))
        if not text:
            return
        self.shown = True
        self._open_line = not text.endswith("\n")
        if not self._colour and not self._columns:
            self._write(text)
            return
        rest = self._lines(text, final=False)
        self._held = rest + self._held

    def flush(self) -> None:
        """Show an incomplete word, because the stream has paused."""
        if self._begun and self._held.strip():
            held, self._held = self._held, "\r" if self._held.endswith("\r") else ""
            self._show(held.removesuffix("\r"), whole=True)

    def end(self) -> None:
        """Show what was held back, and end the line."""
        if self._held:
            held, self._held = terminal.block(self._held.removesuffix("\r")), ""
            self._open_line = True
            if not self._colour and not self._columns:
                self._write(held)
            else:
                self._lines(held, final=True)
        self._paint("")
        if self._open_line:
            self._write("\n")
        self._open_line, self._fence = False, ""
        self._new_line()

    def _lines(self, text: str, *, final: bool) -> str:
        """Show what can be shown; return the rest, which waits for more."""
        while text:
            newline = text.find("\n")
            whole = newline >= 0
            line = text[:newline] if whole else text
            if not self._begun and not self._begin(line, whole or final):
                return text
            shown = self._show(line, whole or final)
            if not whole:
                return line[shown:]
            self._paint("")
            self._write("\n")
            self._new_line()
            text = text[newline + 1 :]
        return ""

    def _new_line(self) -> None:
        self._begun, self._column, self._blank, self._bold, self._code = False, 0, "", False, ""

    def _begin(self, line: str, whole: bool) -> bool:
        """Determine the kind of this line; return False if its start does not tell yet."""
        head = line.lstrip()
        if not whole and (len(head) < 4 or not head.strip("`~")) and " " not in head:
            return False
        self._begun = True
        found = _FENCE.match(line)
        if self._fence:
            closes = found is not None and found[1].startswith(self._fence) and not line.strip("`~ \t")
            self._line_style, self._fold = "dim" if closes else "code", False
            if closes:
                self._fence = ""
            return True
        if found:
            self._fence = found[1]
            self._line_style, self._fold = "dim", False
            return True
        lead = _LEAD.match(line)
        mark = lead[2] or "" if lead else ""
        self._line_style = "bold" if mark.startswith("#") else "dim" if mark == ">" else ""
        self._fold = mark != "|"
        self._indent = min(width(lead[1]) + (len(mark) + 1 if mark else 0), 24) if lead else 0
        return True

    def _show(self, line: str, whole: bool) -> int:
        """Show the complete words of a line; return how many characters were shown."""
        if not self._fold:
            self._paint(self._line_style)
            self._write(line)
            return len(line)
        shown = 0
        for found in _TOKENS.finditer(line):
            token = found[0]
            if found[3] and found.end() == len(line) and not whole and len(token) < _LONGEST:
                break  # the rest of this word is still to come
            shown = found.end()
            if found[1]:
                self._blank = token
            else:
                self._word(token)
        return shown

    def _word(self, word: str) -> None:
        cells, blank = width(word), width(self._blank)
        if self._columns and self._column + blank + cells > self._columns and self._column > self._indent:
            self._paint("")
            self._write("\n" + " " * self._indent)
            self._column = self._indent
        elif self._blank:
            self._paint(self._inline())
            self._write(self._blank)
            self._column += blank
        self._blank = ""
        for part in _DELIMITERS.split(word):
            if not part:
                continue
            if part == "**" and not self._code:
                self._bold = not self._bold
                self._paint("dim")
            elif part.startswith("`"):
                self._code = "" if self._code == part else self._code or part
                self._paint("dim")
            else:
                self._paint(self._inline())
            self._write(part)
        self._column += cells

    def _inline(self) -> str:
        return "code" if self._code else "bold" if self._bold else self._line_style

    def _paint(self, style: str) -> None:
        if self._colour and style != self._style:
            self._write("\x1b[0m" + (f"\x1b[{_CODES[style]}m" if style else ""))
            self._style = style
