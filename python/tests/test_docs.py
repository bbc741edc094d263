"""Runs the programs of the manual."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import List

import pytest
from servers import NERVE, Server

ROOT = Path(__file__).resolve().parents[2]


def programs() -> List[str]:
    blocks = (ROOT / "docs/python.md").read_text().split("```python\n")[1:]
    return [block.split("```")[0] for block in blocks]


#: The output of each program.
PRINTS = [
    ["Hello!", "And again!"],
    ["Hello!", "And again!"],
    ["['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']"],
    ["STEP_COMPLETED a", "STEP_COMPLETED b", "GRAPH_COMPLETED", "hello world again"],
    ["['Yes', ", "END-OF-TOOL"],
]


def test_all_programs_are_run() -> None:
    assert len(programs()) == len(PRINTS)


@pytest.mark.parametrize("number", range(len(PRINTS)))
def test_program_of_the_manual(mortal: Server, tmp_path: Path, number: int) -> None:
    for name, arguments in (("claude", "mock-agent"), ("nerve", "")):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\nexec '{NERVE}' {arguments} \"$@\"\n")
        script.chmod(0o755)
    path = f"{tmp_path}:{mortal.env['PATH']}"
    # The server finds the agent in its own PATH.
    mortal.env["PATH"] = path
    mortal.kill()
    mortal.start()
    env = {**mortal.env, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-W", "error", "-c", programs()[number]]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=80)
    assert done.returncode == 0, done.stderr
    rest = done.stdout
    for text in PRINTS[number]:
        assert text in rest, done.stdout
        rest = rest.split(text, 1)[1]
