"""Waits for the AI tool that a resume has started: run as a program of its own, which is small and holds nothing open.

The tool has the terminal, and is in the process group of this program, so that Ctrl-C, Ctrl-Z and a closed terminal
reach it as if it had been started alone. SIGTERM and SIGHUP are passed on to it and to the processes below it: several
programs are started by a script that would leave them behind. A tool that ends at once with an error is reported. If
the file of its session is gone at the end, or smaller than it was, a command of ours is run that says what is missing.

Only the standard library is used here, and little of it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

AT_ONCE = 15.0  # seconds within which a tool that fails has not been worked with
PATIENCE = 5.0  # seconds that it has to end when it is told to
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_POLL = 0.05


class Supervisor:
    """Waits for one process, and passes signals on to it."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.told = 0  # the signal that was passed on
        self._family: list[int] = []
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
            signal.signal(number, lambda *_: None)  # for the tool alone; it has the terminal
        for number in PASSED_ON:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._pass_on)
        signal.signal(signal.SIGALRM, self._kill)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def wait(self) -> int:
        """Return the exit status of the tool, as a shell has it."""
        while True:
            _, status = os.waitpid(self.process, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            os.kill(os.getpid(), signal.SIGSTOP)  # so that the shell has its prompt again; `fg` continues both
        if self.told:
            self._wait_for_the_others()
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def _pass_on(self, number: int, _: object) -> None:
        self.told = number
        self._family = [*below(self.process), self.process]
        for process in self._family:
            _send(process, number)
            _send(process, signal.SIGCONT)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def _kill(self, *_: object) -> None:
        for process in self._family:
            _send(process, signal.SIGKILL)

    def _wait_for_the_others(self) -> None:
        ends = time.monotonic() + PATIENCE
        while any(_send(process, 0) for process in self._family[:-1]) and time.monotonic() < ends:
            time.sleep(_POLL)
        self._kill()


def _send(process: int, number: int) -> bool:
    """Send a signal; return whether there is such a process."""
    try:
        os.kill(process, number)
    except OSError:
        return False
    return True


def below(process: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    children: dict[int, list[int]] = {}
    for number, parent in _all():
        children.setdefault(parent, []).append(number)
    found = list(children.get(process, ()))
    for number in found:
        found += children.get(number, ())
    return found


def _all() -> list[tuple[int, int]]:
    """Return every process with its parent."""
    found = []
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                        found.append((int(name), int(file.read().rpartition(")")[2].split()[1])))
                except (OSError, ValueError, IndexError):
                    continue  # it has ended
        return found
    import subprocess  # where there is no /proc

    listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        number, parent = line.split()
        found.append((int(number), int(parent)))
    return found


def main(words: list[str]) -> int:
    """Wait for the process; `words` are its id, when it was started, and what to say if it fails at once.

    Then, if there is one to check, the file of its session, the size of that, and the command to run if it is smaller.
    """
    process, started, hint = int(words[0]), float(words[1]), words[2]
    supervisor = Supervisor(process)
    status = supervisor.wait()
    took = time.monotonic() - started
    if status and not supervisor.told and took < AT_ONCE:
        print(f"cortext: {hint.format(status=status)}", file=sys.stderr)
    if len(words) > 5 and not supervisor.told and _size(words[3]) < int(words[4]):
        os.waitpid(os.posix_spawn(words[5], words[5:], os.environ), 0)
    return 128 + supervisor.told if supervisor.told else status


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
