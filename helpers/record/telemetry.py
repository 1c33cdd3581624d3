"""What the driver reports through nvidia-smi: versions once, SM clock and power as we measure."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from dataclasses import dataclass

PERIOD_MS = 50
POWER_FIELDS = ("power.draw.instant", "power.draw")
"""The first that the driver knows is used; the second is an average over up to a second."""


def query(fields: str, device: str | None = None) -> list[str] | None:
    """One line of `nvidia-smi --query-gpu`, split at commas; None where it does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    if device:
        command.append(f"--id={device}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return None
    return [field.strip() for field in lines[0].split(",")]


def number(text: str) -> float | None:
    """A number of nvidia-smi's output, or None for "[N/A]" and the like."""
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class Reading:
    """SM clock in MHz and board power in W over a stretch of time, or why there is none."""

    clock_mhz: float | None
    power_w: float | None
    reason: str | None


class Telemetry:
    """nvidia-smi running beside the measurement, every PERIOD_MS. Use it as a context manager.

    It only reads: no clock, power limit or mode is ever changed.
    """

    def __init__(self, device: str | None = None) -> None:
        self._device = device
        self._process: subprocess.Popen[str] | None = None
        self._samples: list[tuple[float, float | None, float | None]] = []
        self._reason: str | None = "nvidia-smi was not started"

    def __enter__(self) -> Telemetry:
        tool = shutil.which("nvidia-smi")
        if tool is None:
            self._reason = "nvidia-smi is not on the PATH"
            return self
        power = next((f for f in POWER_FIELDS if query(f, self._device)), None)
        if power is None:
            self._reason = "nvidia-smi did not answer a query for the board's power"
            return self
        command = [tool, f"--query-gpu=clocks.sm,{power}", "--format=csv,noheader,nounits"]
        command += [f"--loop-ms={PERIOD_MS}"]
        if self._device:
            command.append(f"--id={self._device}")
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reason = None
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            self.feed(line, time.monotonic())

    def feed(self, line: str, at: float) -> None:
        """Take one line "clock, power" read at time `at` (time.monotonic)."""
        fields = [number(field.strip()) for field in line.split(",")]
        if len(fields) == 2:
            self._samples.append((at, fields[0], fields[1]))

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=10)

    def between(self, started: float, ended: float) -> Reading:
        """Medians of the samples from started to ended (time.monotonic), or of the nearest one."""
        import statistics

        if self._reason:
            return Reading(None, None, self._reason)
        samples = list(self._samples)
        inside = [s for s in samples if started <= s[0] <= ended]
        if not inside:
            near = [s for s in samples if started - 0.3 <= s[0] <= ended + 0.3]
            inside = near[-1:]
        clocks = [s[1] for s in inside if s[1] is not None]
        watts = [s[2] for s in inside if s[2] is not None]
        if not clocks and not watts:
            return Reading(None, None, "nvidia-smi gave no sample while this point was timed")
        return Reading(
            statistics.median(clocks) if clocks else None,
            statistics.median(watts) if watts else None,
            None if clocks and watts else "nvidia-smi reports only one of clock and power here",
        )
