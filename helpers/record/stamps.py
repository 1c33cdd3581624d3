"""Where a number comes from: commit, date and versions, and what a file says of its GPU."""

import os
import re
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.record.gpu import Session
from helpers.record.telemetry import number, query

# -- where a number comes from ---------------------------------------------------------------------


def commit(name: str | None = None) -> str:
    """The commit that is measured: as given, TILE_COMMIT, or git's; "unknown" where none says."""
    named = name or os.environ.get("TILE_COMMIT")
    if named:
        return named

    def git(*line: str) -> str:
        command = ["git", "-C", str(ROOT), *line]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        dirty = git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("-dirty" if dirty else "")


def stamp(versions: Mapping[str, str | None], commit_id: str) -> dict[str, str | None]:
    """Where a number comes from: date (UTC), commit and versions."""
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit_id, **versions}


# -- the GPU and its file --------------------------------------------------------------------------


def slug(name: str) -> str:
    """A file name for a GPU that is not in the table: "NVIDIA RTX A6000" -> "rtx_a6000"."""
    words = re.findall(r"[a-z0-9]+", name.lower().replace("nvidia", "").replace("geforce", ""))
    return "_".join(words) or "gpu"


def gpu_facts(session: Session) -> dict[str, Any]:
    """What the file says about its GPU."""
    live = session.gpu
    limit = query("power.limit", session.bus_id)
    return {
        "name": live.name, "arch": live.arch, "sms": live.sms, "max_clock_mhz": session.boost_mhz(),
        "memory_bytes": live.memory_bytes, "l2_bytes": live.l2_bytes,
        "power_limit_w": number(limit[0]) if limit else None, "bandwidth_gbs": live.bandwidth_gbs,
        "fp32_peak_gflops": session.peak_gflops("fp32"),
    }  # fmt: skip
