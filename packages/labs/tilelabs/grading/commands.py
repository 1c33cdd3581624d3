"""The command line of a class: labs, check, submit, course, handout, grade, similar, report."""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from helpers.notebook.addresses import Repository, checked_address
from helpers.wording import counted, print_json
from nogpu import disk
from nogpu.errors import ConfigError
from tilelabs import apart
from tilelabs.grading.clusters import dask
from tilelabs.grading.collecting import collect
from tilelabs.grading.gradebooks import feedback_zip, fill, folders
from tilelabs.grading.gradescope import METADATA, Submitter, judge_one, read_submitter
from tilelabs.grading.judging import grade, results, retire
from tilelabs.grading.preparing import only, prepared
from tilelabs.grading.reporting import report, write_files
from tilelabs.grading.similarity import export
from tilelabs.grading.timings import time_class
from tilelabs.labs import Lab, all_labs, check, courses, handout, lab, rehearse, submit
from tilelabs.labs.rehearsing import pack, unpack


def run_labs(args: argparse.Namespace) -> int:
    """Show the labs: what each builds on, how long it takes, and what its parts are worth.

    Or unpack what they are rehearsed on, for a teacher, and seal it again.
    """
    found = all_labs()
    if args.solutions:
        if (args.unpack is None) == (args.pack is None):
            raise ConfigError("labs solutions takes --unpack FOLDER or --pack FOLDER")
        made = pack(found, args.pack) if args.pack else unpack(found, args.unpack)
        print("\n".join(map(str, made)))
        return 0
    if args.json:
        names = ("number", "title", "hours", "points", "builds_on")
        lists = [
            {"variants": [v.name for v in one.variants], "parts": [vars(p) for p in one.parts]}
            for one in found
        ]
        rows = [{name: getattr(one, name) for name in names} for one in found]
        print_json([row | more for row, more in zip(rows, lists, strict=True)])
        return 0
    for one in found:
        print(f"Lab {one.number}: {one.title}")
        print(f"  {one.hours} hours, {one.points} points, after {', '.join(one.builds_on)}")
        print(f"  variants: {'; '.join(v.name for v in one.variants)}")
        for part in one.parts:
            limit = f", {part.bound}" if part.bound else ""
            hand = " (by hand)" if part.by_hand else ""
            print(f"  {part.points:3}  {part.id}{hand}: {part.words}{limit}")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Check a lab's kernel as a student does: in seconds, without a GPU; 0 if every point is there,
    else 1.
    """
    try:
        source = args.file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{args.file} cannot be read: {error.strerror}") from None
    found = check(
        args.lab, source, variant=args.variant, folder=args.file.parent, every_shape=args.all
    )
    if args.json:
        parts = {
            p.rubric.id: {"points": p.points, "of": p.rubric.points, "words": p.words}
            for p in found.parts
        }
        which = {"lab": found.lab.number, "variant": found.variant.name}
        points = {"points": found.points, "of": found.most, "refused": found.marked.refused}
        print_json({**which, **points, "parts": parts})
    else:
        print(found)
    return 0 if found.ok else 1


def run_submit(args: argparse.Namespace) -> int:
    """Write the one file to hand in, from lab2.cu and lab2_written.md; 0 if nothing lacks."""
    made = submit(args.lab, variant=args.variant, folder=args.folder)
    print(made)
    return 0 if made.ok else 1


def run_course(args: argparse.Namespace) -> int:
    """Make a course: a secret, from which its labs' variants and cases are drawn, and tables to
    fill in.
    """
    made = courses.new(args.folder, args.name)
    print(f"{made.folder / courses.FILE}: the course's secret; keep it to yourself")
    for table in courses.TABLES:
        print(f"{made.folder / table}: to fill in")
    for one in all_labs():
        print(f"lab {one.number}: {made.variant(one).name}")
    return 0


def run_handout(args: argparse.Namespace) -> int:
    """Write the student's notebook of a lab for a course: its variant and the starter, no case, no
    secret.
    """
    one, course = lab(args.lab), courses.read(args.course)
    path = args.out or Path(f"lab{one.number}.ipynb")
    opens = ""
    if args.repository:
        host = "" if "://" in args.repository else "https://github.com/"
        url = checked_address(host + args.repository)
        opens = Repository(url, args.branch).opened(args.path or path.name)
    made = handout(one, course, opens)
    disk.replace_file(path, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    print(f"{path}: lab {one.number}, {course.variant(one).name}")
    print("left out: what submissions are tried on, which is drawn from the course's secret")
    return 0


def run_grade(args: argparse.Namespace) -> int:
    """Judge a folder of submissions: measures only; `report` makes marks of it.

    What is judged stays judged.
    """
    if args.rehearse:
        return _rehearse(lab(args.lab))
    if lacks := [n for n in ("submissions", "course", "out") if getattr(args, n) is None]:
        raise ConfigError(
            f"grade lacks {', '.join(lacks)}: grade 2 DOWNLOAD --course COURSE --out RESULTS"
        )
    if args.forget_course and not args.gradescope:
        raise ConfigError(
            "--forget-course deletes the course's secret: it is for --gradescope, in a container "
            "of its own"
        )
    one, course = lab(args.lab), courses.read(args.course)
    if not (
        args.dask or apart.landlock() or args.without_landlock
    ):  # Dask's workers see to themselves
        raise ConfigError(
            "this machine cannot lock the compiler into folders (Landlock, Linux 5.13 or newer): "
            "grade in a Linux container, or add --without-landlock where there is nothing worth "
            "reading"
        )
    lock, tell = not args.without_landlock, partial(print, flush=True)
    if args.forget_course:
        (args.course / courses.FILE).unlink()
    if args.gradescope:
        submitter = (
            Submitter(args.student, "", args.attempt or 1)
            if args.student
            else read_submitter(args.submissions.absolute().parent / METADATA)
        )
        where = (args.out, args.gradescope)
        judge_one(args.submissions, one, course, *where, submitter, lock=lock, tell=tell)
        return 0
    ready = only(prepared(args.submissions, one, course), args.only or ())
    handed_in = ready.submissions
    tell(write_files(one, ready.files, args.out))
    retire(args.out, one, ready.same)
    how = {name: getattr(args, name) for name in ("attempt", "again", "workers")}
    how |= {"lock": lock, "tell": tell}
    with dask(args.dask) if args.dask else nullcontext() as executor:
        found = grade(one, handed_in, course, args.out, executor=executor, **how)
    for words in (*ready.unused, *(f"{r.student}: {n}" for r in found for n in r.notes)):
        tell(f"  {words}")
    if args.gpu:
        time_class(one, handed_in, found, course, args.out, lock=lock, tell=tell)
    return 1 if ready.strangers else 0


def _rehearse(one: Lab) -> int:
    """The lab tried on its own sources: 0 if each comes out as it should, else 1."""
    odd = 0
    for tried in rehearse(one):
        sign, found = "[ ]" if tried.odd else "[x]", tried.checked
        remark = f": {tried.odd}" if tried.odd else ""
        what = f"{tried.source.kind} {tried.source.name}{remark}"
        print(f"{sign} {found.points:3} of {found.most}  {what}", flush=True)
        odd += bool(tried.odd)
    print(f"{odd} of them odd" if odd else "each as it should be")
    return 1 if odd else 0


def run_report(args: argparse.Namespace) -> int:
    """Make marks of what `grade` found: a table, and a text for each student.

    Runs nothing; do it again freely.
    """
    one = lab(args.lab)
    course = courses.read(args.course)
    rows = report(one, course, args.out, tell=print)
    files = {s: file for r in results(args.out, one) for s, file in r.files.items()}
    print(f"{args.out / f'lab-{one.number}-marks.csv'}: {counted(len(rows), 'student')}")
    answers = [text for row in rows for text in row.answers.values() if text]
    written = args.out / f"lab-{one.number}-written.csv"
    print(f"{written}: {counted(len(answers), 'written answer')}; type their points in")
    print(f"{args.out / f'lab-{one.number}-feedback'}: a text for each")
    print(f"{feedback_zip(one, rows, files, args.out)}: the same in the download's folders")
    into = folders(rows, files)
    if lacks := [row.student for row in rows if row.file and row.student not in into]:
        print(f"  no folder of their own, so give them theirs yourself: {', '.join(lacks)}")
    if args.gradebook:
        filled = fill(one, rows, args.gradebook, args.out, column=args.column)
        students = counted(filled.students, "student")
        print(f"{filled.path}: {students} in the column {filled.column!r}")
        for what, who in (*filled.left.items(), ("not in the table", filled.unknown)):
            if who:
                print(f"  {what}: {', '.join(who)}")
    return 0


def run_similar(args: argparse.Namespace) -> int:
    """Write folders in which JPlag and Dolos compare the kernels of a class."""
    one = lab(args.lab)
    before = collect(args.before, one.entry) if args.before else ()
    folder, without = export(one, collect(args.submissions, one.entry), before, args.out)
    print(f"{folder}: README.txt says how to call JPlag and Dolos; no part of any mark")
    if without:
        print(f"  without a text: {', '.join(without)}")
    return 0


def takes(*arguments: Sequence[Any]) -> Callable[[argparse.ArgumentParser], None]:
    """What gives a command these arguments: name, help, and what argparse takes besides."""

    def configure(command: argparse.ArgumentParser) -> None:
        for name, text, *more in arguments:
            command.add_argument(name, help=text, **(more[0] if more else {}))

    return configure


PATH, FLAG, WORDS = {"type": Path}, {"action": "store_true"}, {"default": ""}
NEEDED = {"type": Path, "required": True}
LAB = ("lab", "its number, such as 2")
COURSE = ("--course", "the course's folder", NEEDED)
OUT = ("--out", "the folder of results", NEEDED)
DOWNLOAD = ("submissions", "the download of a learning platform: a folder or a zip", PATH)
VARIANT = (
    "--variant",
    "by name (default: that of lab2.json beside the kernel, which the lab's notebook wrote, or the "
    "first)",
    WORDS,
)
FOLDER = {"type": Path, "metavar": "FOLDER"}
configure_labs = takes(
    ("solutions", "solutions, wrong twins and questions for an exam, for teachers",
     {"nargs": "?", "choices": ["solutions"]}),
    ("--unpack", "write them as FOLDER/LAB/rehearsal/FILE", FOLDER),
    ("--pack", "seal what lies there so, once changed", FOLDER),
)  # fmt: skip
configure_handout = takes(
    LAB,
    COURSE,
    ("--out", "the notebook (default: lab2.ipynb here)", PATH),
    ("--repository", "OWNER/NAME on GitHub, where you will keep it: adds Open in Colab", WORDS),
    ("--branch", "of that repository", {"default": "main"}),
    ("--path", "of the notebook in it (default: its name, at the top)", WORDS),
)
configure_grade = takes(
    LAB,
    (*DOWNLOAD[:2], {"type": Path, "nargs": "?"}),
    (*COURSE[:2], PATH),
    (*OUT[:2], PATH),
    ("--rehearse", "try the lab on its own solutions, twins and exploits instead", FLAG),
    ("--only", "judge this student's submission alone; once for each of several",
     {"action": "append", "metavar": "ID"}),
    ("--again", "judge what has been judged, too", FLAG),
    ("--attempt", "another number draws other cases (default: as before, or the next of a new "
     "source)", {"type": int}),
    ("--workers", "submissions at a time (default: cores)", {"type": int}),
    ("--dask", "judge on the workers of a Dask scheduler, such as tcp://host:8786",
     {"default": "", "metavar": "ADDRESS"}),
    ("--gpu", "time what is right and clean on this machine's GPU, too", FLAG),
    ("--without-landlock", "do not lock the two processes", FLAG),
    ("--gradescope", "the folder is one submission in Gradescope's container: write its "
     "results.json", {"type": Path, "metavar": "RESULTS_JSON"}),
    ("--student", "with --gradescope: whose (default: what its metadata says)", WORDS),
    ("--forget-course", "delete course.toml once it is read: in a container that is made anew for "
     "each submission", FLAG),
)  # fmt: skip
configure_check = takes(
    LAB,
    ("file", "the kernel's source", PATH),
    VARIANT,
    ("--all", "go on after the first wrong shape", FLAG),
)
configure_submit = takes(
    LAB,
    ("--folder", "with the kernel (default: here)", {"type": Path, "default": Path()}),
    VARIANT,
)
configure_course = takes(
    ("action", "new: make one", {"choices": ["new"]}),
    ("folder", "a folder of its own, not one that students see", PATH),
    ("--name", "what it is called (default: the folder's name)", WORDS),
)
configure_report = takes(
    LAB,
    ("--gradebook", "the platform's export (Canvas, Moodle), to be filled in", PATH),
    ("--column", "the column of points, by how it begins", WORDS),
    COURSE,
    OUT,
)
EARLIER = {"type": Path, "dest": "before", "metavar": "EARLIER"}
configure_similar = takes(LAB, DOWNLOAD, ("--with", "an earlier class's download", EARLIER), OUT)
