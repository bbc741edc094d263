#!/usr/bin/env python3
"""Runs the turns of `cargo bench -p nerve --bench turns` with pexpect, on the same bash.

    pexpect_turns.py TURNS [--no-waits]

The exact prompt is known, and pexpect's delay before a send is off. --no-waits also disables its delay of 0.1 ms after
a read, which few programs do. Prints one line per turn: microseconds, and 1 if the answer was right, else 0.
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
