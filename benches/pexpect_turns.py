#!/usr/bin/env python3
"""The peer of `cargo bench -p nerve --bench turns`: the same turns on the same bash, by pexpect.

    pexpect_turns.py TURNS [--no-waits]

The prompt is known to the letter and pexpect's wait before a send is off. With --no-waits its wait of 0.1 ms after a
read is off too, which few programs do. Prints one line a turn: microseconds, and 1 if the answer was right, else 0.
"""

import os
import sys
import time

import pexpect

PROMPT = "PEXPECT> "


def main() -> None:
    turns = int(sys.argv[1])
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", "PS1": PROMPT}
    bash = pexpect.spawn("bash", ["--norc", "--noprofile"], env=env, dimensions=(40, 120), timeout=30)
    bash.delaybeforesend = None
    if "--no-waits" in sys.argv[2:]:
        bash.delayafterread = None
    bash.expect_exact(PROMPT)
    for number in range(1, turns + 1):
        start = time.perf_counter_ns()
        bash.sendline(f"echo {number}")
        bash.expect_exact(PROMPT)
        elapsed = time.perf_counter_ns() - start
        right = f"\r{number}\r\n".encode() in bash.before or f"\n{number}\r\n".encode() in bash.before
        print(elapsed / 1000, int(right))
    bash.close(force=True)


if __name__ == "__main__":
    main()
