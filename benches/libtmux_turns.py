#!/usr/bin/env python3
"""Runs the turns of `cargo bench -p nerve --bench panes` with libtmux, on bash in a tmux pane.

    libtmux_turns.py TURNS SOCKET

The usual loop: send-keys, then capture-pane until the prompt is back, without a pause between captures.
The exact prompt is known. Prints one line per turn: microseconds, and 1 if the answer was right, else 0.
"""

import sys
import time

import libtmux

PROMPT = "LIBTMUX> "


def rows(pane) -> list[str]:
    """Returns the visible rows without the empty ones at the end."""
    captured = pane.cmd("capture-pane", "-p").stdout
    while captured and not captured[-1].strip():
        captured.pop()
    return captured


def wait(pane, done) -> list[str]:
    """Captures the pane until `done` returns true, and returns its rows."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        seen = rows(pane)
        if done(seen):
            return seen
    sys.exit("the prompt did not return")


def main() -> None:
    turns, socket = int(sys.argv[1]), sys.argv[2]
    server = libtmux.Server(socket_path=socket)
    bash = f"env PS1='{PROMPT}' bash --norc --noprofile"
    session = server.new_session("libtmux", window_command=bash, x=120, y=40)
    pane = session.attached_window.attached_pane
    at_prompt = lambda seen: seen and seen[-1] == PROMPT.rstrip()
    wait(pane, at_prompt)
    for number in range(1, turns + 1):
        # The rows above the prompt distinguish it from the previous one.
        typed = f"{PROMPT}echo {number}"
        start = time.perf_counter_ns()
        pane.send_keys(f"echo {number}", enter=True, suppress_history=False)
        seen = wait(pane, lambda seen: at_prompt(seen) and typed in seen[-3:])
        elapsed = time.perf_counter_ns() - start
        print(elapsed / 1000, int(seen[-2].strip() == str(number)))
    session.kill_session()


if __name__ == "__main__":
    main()
