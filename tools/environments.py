"""Fresh environments with some packages and nothing else: made once below _build/, shared by
whoever asks."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers.ladder.kernel import ROOT


class NoEnvironmentError(Exception):
    """The environment cannot be made here: pip cannot install these packages."""


def environment(name: str, wanted: Sequence[str]) -> Path:
    """The Python of an environment with what is wanted of pip, and what that needs.

    Raises NoEnvironmentError.
    """
    key = hashlib.sha256(json.dumps([sys.version, *wanted]).encode()).hexdigest()[:8]
    folder = ROOT / "_build" / f"{name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            # Only wheels: a newer Python may have none, and then it is said soon.
            command = [*pip, "--only-binary=:all:", *wanted]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoEnvironmentError(done.stderr.strip()[-500:])
            (folder / "ready").touch()
    return python
