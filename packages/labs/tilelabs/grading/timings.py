"""Times of a class on one GPU, one file each beside the facts: a column of its own, and no part of
the points.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from nogpu import device
from nogpu.disk import code_of, replace_file
from nogpu.errors import ConfigError, DataError, NoGPUError
from tilelabs.grading.collecting import Submission
from tilelabs.grading.judging import Result, file_name
from tilelabs.judging import timing
from tilelabs.judging.timing import Timed, time_on_gpu, timed_from, words
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab

_TIMER = code_of(Path(timing.__file__ or ""))
FOLDER = "times"


def time_class(
    lab: Lab,
    submissions: Sequence[Submission],
    results: Sequence[Result],
    course: Course,
    out: Path,
    *,
    lock: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Mapping[str, Timed]:
    """Time, one after the other, what is right and clean and has not been timed on this GPU yet.

    Written to out/lab-N/times/. lock: of the compiler. Raises NoGPUError where none answers,
    ConfigError for a lab that is not timed.
    """
    if not lab.rung:
        raise ConfigError(f"lab {lab.number} names no `rung` to be timed beside: leave --gpu out")
    gpu = device.current()
    if gpu is None:
        raise NoGPUError(
            "no NVIDIA GPU answers on this machine: leave --gpu out, or run it on one that has it"
        )
    folder = out / f"lab-{lab.number}" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    raw = {s.student: s.raw for s in submissions}
    data = times(out, lab)
    fit = [r for r in results if raw.get(r.student) is not None and sound(r)]
    tell(
        f"{len(fit)} of {len(results)} submissions are right and clean, and are timed on {gpu.name}"
    )
    size = (lab.size, lab.size, lab.size)
    for n, result in enumerate(fit, 1):
        of = (result.key, gpu.name, lab.rung, size, _TIMER)
        key = hashlib.sha256(repr(of).encode()).hexdigest()
        path = folder / file_name(result.student)
        if _key(path) == key:
            continue
        spec = lab.specification(course.variant(lab))
        timed = time_on_gpu(raw[result.student] or b"", spec, lab.rung, size, lock=lock)
        whose = {"student": result.student, "key": key, "source": result.source}
        record = json.dumps(whose | {"timed": asdict(timed)}, indent=1, sort_keys=True)
        replace_file(path, record + "\n", 0o600)
        data[result.student] = timed
        tell(f"{n}/{len(fit)} {result.student}: {words(timed)}")
    return data


def sound(result: Result) -> bool:
    """Whether a kernel may run on a GPU: every case is right in the emulator, and nothing was
    found.
    """
    m = result.marked
    return bool(m.runs) and m.clean and len(m.right) == m.all


def _key(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def times(out: Path, lab: Lab, of: Sequence[Result] = ()) -> dict[str, Timed]:
    """What was timed of a lab, by student; empty if nothing was.

    Raises DataError for a damaged file.

    of: results, whose source alone counts: a time of an earlier submission is left out.
    """
    found = {}
    source = {r.student: r.source for r in of}
    for path in sorted((out / f"lab-{lab.number}" / FOLDER).glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            student = str(data["student"])
            if source.get(student, data.get("source")) == data.get("source"):
                found[student] = timed_from(data["timed"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error}): delete it and time again") from None
    return found
