"""The command line of a class: labs, check, submit, course, handout, grade, similar, report."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path

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
from tilelabs.grading.reporting import report
from tilelabs.grading.similarity import export
from tilelabs.grading.timings import time_class
from tilelabs.labs import Lab, all_labs, check, courses, handout, lab, rehearse, submit


def run_labs(args: argparse.Namespace) -> int:
    """Show the labs: what each builds on, how long it takes, and what its parts are worth."""
    found = all_labs()
    if args.json:
        print_json(
            [
                {
                    "number": one.number,
                    "title": one.title,
                    "hours": one.hours,
                    "points": one.points,
                    "builds_on": one.builds_on,
                    "variants": [v.name for v in one.variants],
                    "parts": [vars(p) for p in one.parts],
                }
                for one in found
            ]
        )
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
    found = check(args.lab, source, variant=args.variant, folder=args.file.parent)
    if args.json:
        parts = {
            p.rubric.id: {"points": p.points, "of": p.rubric.points, "words": p.words}
            for p in found.parts
        }
        print_json(
            {
                "lab": found.lab.number,
                "variant": found.variant.name,
                "points": found.points,
                "of": found.most,
                "refused": found.marked.refused,
                "parts": parts,
            }
        )
    else:
        print(found)
    return 0 if found.ok else 1


def configure_check(command: argparse.ArgumentParser) -> None:
    """Arguments of `check`."""
    command.add_argument("lab", help="its number, such as 2")
    command.add_argument("file", type=Path, help="the kernel's source")
    command.add_argument("--variant", default="", help=VARIANT)


VARIANT = (
    "by name (default: that of lab2.json beside the kernel, which the lab's notebook wrote, or the"
    " first)"
)


def run_submit(args: argparse.Namespace) -> int:
    """Write the one file to hand in, from lab2.cu and lab2_written.md; 0 if nothing lacks."""
    made = submit(args.lab, variant=args.variant, folder=args.folder)
    print(made)
    return 0 if made.ok else 1


def configure_submit(command: argparse.ArgumentParser) -> None:
    """Arguments of `submit`."""
    command.add_argument("lab", help="its number, such as 2")
    command.add_argument(
        "--folder", type=Path, default=Path(), help="with the kernel (default: here)"
    )
    command.add_argument("--variant", default="", help=VARIANT)


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


def configure_course(command: argparse.ArgumentParser) -> None:
    """Arguments of `course`."""
    command.add_argument("action", choices=["new"], help="new: make one")
    command.add_argument("folder", type=Path, help="a folder of its own, not one that students see")
    command.add_argument(
        "--name", default="", help="what it is called (default: the folder's name)"
    )


def run_handout(args: argparse.Namespace) -> int:
    """Write the student's notebook of a lab for a course: its variant and the starter, no case, no
    secret.
    """
    one, course = lab(args.lab), courses.read(args.course)
    path = args.out or Path(f"lab{one.number}.ipynb")
    opens = ""
    if args.repository:
        url = (
            args.repository if "://" in args.repository else f"https://github.com/{args.repository}"
        )
        opens = Repository(checked_address(url), args.branch).opened(args.path or path.name)
    made = handout(one, course, opens)
    disk.replace_file(path, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    print(f"{path}: lab {one.number}, {course.variant(one).name}")
    print("left out: what submissions are tried on, which is drawn from the course's secret")
    return 0


def configure_handout(command: argparse.ArgumentParser) -> None:
    """Arguments of `handout`."""
    add = command.add_argument
    add("lab", help="its number, such as 2")
    add("--course", type=Path, required=True, help="the course's folder")
    add("--out", type=Path, default=None, help="the notebook (default: lab2.ipynb here)")
    add(
        "--repository",
        default="",
        help="OWNER/NAME on GitHub, where you will keep it: adds Open in Colab",
    )
    add("--branch", default="main", help="of that repository")
    add("--path", default="", help="of the notebook in it (default: its name, at the top)")


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
    lock = not args.without_landlock

    def tell(line: str) -> None:
        print(line, flush=True)

    if args.forget_course:
        (args.course / courses.FILE).unlink()
    if args.gradescope:
        submitter = (
            Submitter(args.student, "", args.attempt or 1)
            if args.student
            else read_submitter(args.submissions.absolute().parent / METADATA)
        )
        judge_one(
            args.submissions,
            one,
            course,
            args.out,
            args.gradescope,
            submitter,
            lock=lock,
            tell=tell,
        )
        return 0
    ready = only(prepared(args.submissions, one, course), args.only or ())
    handed_in = ready.submissions
    retire(args.out, one, ready.same)
    with dask(args.dask) if args.dask else nullcontext() as executor:
        found = grade(
            one,
            handed_in,
            course,
            args.out,
            attempt=args.attempt,
            again=args.again,
            workers=args.workers,
            executor=executor,
            lock=lock,
            tell=tell,
        )
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
        print(
            f"{sign} {found.points:3} of {found.most}  {tried.source.kind} "
            f"{tried.source.name}{remark}",
            flush=True,
        )
        odd += bool(tried.odd)
    print(f"{odd} of them odd" if odd else "each as it should be")
    return 1 if odd else 0


def configure_grade(command: argparse.ArgumentParser) -> None:
    """Arguments of `grade`."""
    add = command.add_argument
    add("lab", help="its number, such as 2")
    add(
        "submissions",
        type=Path,
        nargs="?",
        help="the download of a learning platform: a folder or a zip",
    )
    add("--course", type=Path, help="the course's folder")
    add("--out", type=Path, help="the folder of results")
    add(
        "--rehearse",
        action="store_true",
        help="try the lab on its own solutions, twins and exploits instead",
    )
    add(
        "--only",
        action="append",
        metavar="ID",
        help="judge this student's submission alone; once for each of several",
    )
    add("--again", action="store_true", help="judge what has been judged, too")
    add(
        "--attempt",
        type=int,
        default=None,
        help="another number draws other cases (default: as before, or 1)",
    )
    add("--workers", type=int, default=None, help="submissions at a time (default: cores)")
    add(
        "--dask",
        default="",
        metavar="ADDRESS",
        help="judge on the workers of a Dask scheduler, such as tcp://host:8786",
    )
    add(
        "--gpu", action="store_true", help="time what is right and clean on this machine's GPU, too"
    )
    add("--without-landlock", action="store_true", help="do not lock the two processes")
    add(
        "--gradescope",
        type=Path,
        metavar="RESULTS_JSON",
        help="the folder is one submission in Gradescope's container: write its results.json",
    )
    add("--student", default="", help="with --gradescope: whose (default: what its metadata says)")
    add(
        "--forget-course",
        action="store_true",
        help=(
            "delete course.toml once it is read: in a container that is made anew for each "
            "submission"
        ),
    )


def run_report(args: argparse.Namespace) -> int:
    """Make marks of what `grade` found: a table, and a text for each student.

    Runs nothing; do it again freely.
    """
    one = lab(args.lab)
    course = courses.read(args.course)
    rows = report(one, course, args.out)
    files = {s: file for r in results(args.out, one) for s, file in r.files.items()}
    print(f"{args.out / f'lab-{one.number}-marks.csv'}: {counted(len(rows), 'student')}")
    answers = [text for row in rows for text in row.answers.values() if text]
    print(
        f"{args.out / f'lab-{one.number}-written.csv'}: "
        f"{counted(len(answers), 'written answer')}; their points go into overrides.csv"
    )
    print(f"{args.out / f'lab-{one.number}-feedback'}: a text for each")
    print(f"{feedback_zip(one, rows, files, args.out)}: the same in the download's folders")
    into = folders(rows, files)
    if lacks := [row.student for row in rows if row.file and row.student not in into]:
        print(f"  no folder of their own, so give them theirs yourself: {', '.join(lacks)}")
    if args.gradebook:
        filled = fill(one, rows, args.gradebook, args.out, column=args.column)
        print(
            f"{filled.path}: {counted(filled.students, 'student')} in the column {filled.column!r}"
        )
        for what, who in (*filled.left.items(), ("not in the table", filled.unknown)):
            if who:
                print(f"  {what}: {', '.join(who)}")
    return 0


def configure_report(command: argparse.ArgumentParser) -> None:
    """Arguments of `report`."""
    add = command.add_argument
    add("lab", help="its number, such as 2")
    add("--gradebook", type=Path, help="the platform's export (Canvas, Moodle), to be filled in")
    add("--column", default="", help="the column of points, by how it begins")
    add("--course", type=Path, required=True, help="the course's folder")
    add("--out", type=Path, required=True, help="the folder of results")


def run_similar(args: argparse.Namespace) -> int:
    """Write folders in which JPlag and Dolos compare the kernels of a class."""
    one = lab(args.lab)
    before = collect(args.before, one.entry) if args.before else ()
    folder, without = export(one, collect(args.submissions, one.entry), before, args.out)
    print(f"{folder}: README.txt says how to call JPlag and Dolos; no part of any mark")
    if without:
        print(f"  without a text: {', '.join(without)}")
    return 0


def configure_similar(command: argparse.ArgumentParser) -> None:
    """Arguments of `similar`."""
    add = command.add_argument
    add("lab", help="its number, such as 2")
    add("submissions", type=Path, help="the download of a learning platform: a folder or a zip")
    add("--with", type=Path, dest="before", metavar="EARLIER", help="an earlier class's download")
    add("--out", type=Path, required=True, help="the folder of results")


COMMANDS = (
    ("labs", "the labs of a class, and what they are worth", run_labs, None, True),
    ("check", "a lab's kernel: points by part, without a GPU", run_check, configure_check, True),
    ("submit", "a lab's one file to hand in", run_submit, configure_submit, False),
    ("course", "a new course: its secret and its tables", run_course, configure_course, False),
    ("handout", "the student's notebook of a lab", run_handout, configure_handout, False),
    ("grade", "judge a folder of submissions, resumable", run_grade, configure_grade, False),
    (
        "similar",
        "folders for JPlag and Dolos, which find kernels that are alike",
        run_similar,
        configure_similar,
        False,
    ),
    ("report", "marks and feedback of what was judged", run_report, configure_report, False),
)
"""Name, summary, what runs it, what adds its arguments, and whether it can say JSON."""
