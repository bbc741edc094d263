"""Finds the program, and the socket of a server of this user in the same places as `nerve`."""

from __future__ import annotations

import os
import re
from importlib import metadata
from pathlib import Path
from typing import Mapping, Optional

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def socket_path(server: Optional[str] = None, env: Optional[Mapping[str, str]] = None) -> Path:
    """Returns the path of a server's Unix socket, which may not exist. None: `NERVE_SERVER` or `default`.

    Raises `ValueError` unless the name has 1–32 of `a-z 0-9 -`, with no `-` at either end.
    """
    env = os.environ if env is None else env
    name = server or env.get("NERVE_SERVER") or "default"
    if not _NAME.fullmatch(name):
        raise ValueError(f"server name {name!r}: 1–32 of a-z 0-9 -, with no - at either end")
    return _runtime(env) / f"{name}.sock"


def program_path() -> str:
    """Returns the path of the program that was installed with this client, otherwise `nerve`, which is looked up in `PATH`."""
    try:
        files = metadata.files("nerve-sdk") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        # The environment's folder of commands need not be in `PATH`.
        program = Path(os.path.normpath(str(file.locate())))
        if file.name == "nerve" and program.parent.name == "bin" and program.is_file():
            return str(program)
    return "nerve"


def _runtime(env: Mapping[str, str]) -> Path:
    home = env.get("NERVE_HOME")
    if home:
        return Path.cwd() / home / "run"
    runtime = Path(env.get("XDG_RUNTIME_DIR") or ".")
    # After `su`, this may be the directory of another user.
    if runtime.is_absolute() and runtime.is_dir() and runtime.stat().st_uid == os.getuid():
        return runtime / "nerve"
    temporary = Path(env.get("TMPDIR") or ".")
    if not temporary.is_absolute():
        temporary = Path("/tmp")
    return temporary / f"nerve-{os.getuid()}"
