"""Adds the program to the pure wheel of the client: `pip install` then also gives the command `nerve`.

    python3 platform_wheel.py PURE_WHEEL PROGRAM --tag manylinux_2_34_x86_64 --out FOLDER

Prints the name of the new wheel. The same files and `SOURCE_DATE_EPOCH` give the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import time
import zipfile
from pathlib import Path

#: Earliest time of a file in a zip archive.
ZIP_EPOCH = 315532800
FILE = 0o100644
PROGRAM = 0o100755


def main() -> None:
    args = _arguments()
    name, version, python, abi, _ = args.wheel.stem.split("-")
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(args.wheel) as wheel:
        files = {entry: wheel.read(entry) for entry in wheel.namelist()}
    del files[f"{info}/RECORD"]
    files[f"{info}/WHEEL"] = _wheel_file(files[f"{info}/WHEEL"].decode(), f"{python}-{abi}", args.tag)
    for notice in args.notice:
        # PEP 770 has a folder for bills of materials, PEP 639 one for licences.
        folder = "sboms" if notice.suffix == ".json" else "licenses"
        files[f"{info}/{folder}/{notice.name}"] = notice.read_bytes()
        if folder == "licenses":
            files[f"{info}/METADATA"] = _with_license_file(files[f"{info}/METADATA"], notice.name)
    program = f"{name}-{version}.data/scripts/nerve"
    files[program] = args.program.read_bytes()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    target = args.out / f"{name}-{version}-{python}-{abi}-{args.tag}.whl"
    _write(target, files, program, args.level)
    print(target.name)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="pure wheel")
    parser.add_argument("program", type=Path, help="program to add as nerve")
    parser.add_argument("--tag", required=True, help="platform tags, separated by dots")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the new wheel")
    parser.add_argument("--notice", type=Path, action="append", default=[], help="licence text or SBOM to add")
    parser.add_argument("--level", type=int, default=9, help="compression, 0 to 9")
    return parser.parse_args()


def _wheel_file(pure: str, python_tag: str, platforms: str) -> bytes:
    kept = [line for line in pure.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    tags = [f"Tag: {python_tag}-{platform}" for platform in platforms.split(".")]
    return ("\n".join([*kept, "Root-Is-Purelib: false", *tags]) + "\n").encode()


def _with_license_file(metadata: bytes, name: str) -> bytes:
    fields, separator, text = metadata.partition(b"\n\n")
    return fields + f"\nLicense-File: {name}".encode() + separator + text


def _record(files: dict[str, bytes], own: str) -> bytes:
    def line(path: str) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=").decode()
        return f"{path},sha256={digest},{len(files[path])}\n"

    return ("".join(line(path) for path in sorted(files)) + f"{own},,\n").encode()


def _write(target: Path, files: dict[str, bytes], program: str, level: int) -> None:
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), ZIP_EPOCH)
    moment = time.gmtime(epoch)[:6]
    with zipfile.ZipFile(target, "w") as wheel:
        # The metadata comes last, as PEP 427 recommends.
        for path in sorted(files, key=lambda path: (".dist-info/" in path, path)):
            entry = zipfile.ZipInfo(path, moment)
            entry.external_attr = (PROGRAM if path == program else FILE) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, files[path], compresslevel=level)


if __name__ == "__main__":
    main()
