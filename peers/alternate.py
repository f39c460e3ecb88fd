"""Runs several programs that measure on one GPU, and lets their rounds alternate: ours, the peer, ours, the peer.

usage: python3 peers/alternate.py FILE [--compile-separately]

FILE has one shell command a line; empty lines and lines that begin with # are skipped. Each command is a `cs336 compile` or a
`peers/transformer_step.py` with `--rounds`. The programs compile at the same time, or one after the other with
`--compile-separately`, so that no other program disturbs one that searches for the fastest kernels. Then each measures one
round after the other, while all others wait. Their outputs go to FILE.1.log, FILE.2.log and so on. The exit code is 1 if a
program failed.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

POLL_SECONDS = 0.005


class Program:
    """A program in a process group of its own, with the two files of cs336.compile.Turns."""

    def __init__(self, command, beginning, log):
        self.waits, self.turn = (pathlib.Path(f"{beginning}.{end}") for end in ("waits", "turn"))
        self.log = open(log, "w")
        environment = {**os.environ, "CS336_TURNS": str(beginning)}
        self.process = subprocess.Popen(
            ["bash", "-c", command], env=environment, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def runs(self):
        return self.process.poll() is None

    def await_end_of_turn(self):
        """Waits until the program asks for its next turn, or ends."""
        while self.runs() and not self.waits.exists():
            time.sleep(POLL_SECONDS)

    def take_turn(self):
        if self.runs():
            self.waits.unlink()
            self.turn.touch()
            self.await_end_of_turn()

    def kill(self):
        if self.runs():
            os.killpg(self.process.pid, 9)

    def await_end(self):
        self.process.wait()
        self.log.close()


def main():
    options = sys.argv[2:]
    if len(sys.argv) < 2 or options not in ([], ["--compile-separately"]):
        raise SystemExit(__doc__.split("\n\n")[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the programs, whose memory the next run needs
    path = pathlib.Path(sys.argv[1])
    lines = [line.strip() for line in path.read_text().splitlines()]
    commands = [line for line in lines if line and not line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        programs = []
        try:
            for i, command in enumerate(commands, start=1):
                programs.append(Program(command, f"{folder}/{i}", f"{path}.{i}.log"))
                if options:
                    programs[-1].await_end_of_turn()
            for program in programs:
                program.await_end_of_turn()
            while any(program.runs() for program in programs):
                for program in programs:
                    program.take_turn()
                    for other in programs:  # one that prepares its next case
                        other.await_end_of_turn()
        finally:
            for program in programs:  # all of them first: this program may be killed while it waits
                program.kill()
            for program in programs:
                program.await_end()
    failed = [program for program in programs if program.process.returncode != 0]
    for program in failed:
        print(f"exit code {program.process.returncode}, see {program.log.name}", file=sys.stderr)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
