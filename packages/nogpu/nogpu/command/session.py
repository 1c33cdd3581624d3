"""Runs what a file launches, and gathers what was found and counted as plain data."""

from __future__ import annotations

import inspect
import math
import re
import runpy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import starmap
from typing import Any

import numpy as np

from nogpu import device, toolchain
from nogpu.command import settings
from nogpu.command.host import Program
from nogpu.command.settings import Memory, Options, Setting
from nogpu.command.sources import Source
from nogpu.command.syntax import NotReadError, number
from nogpu.command.values import Assigned, Filled, Launched, Unknown
from nogpu.emulator import Finding, LineAccess, TensorMap, launch, prepared
from nogpu.errors import CompileError, ConfigError, TileError, ToolchainError, near_matches
from nogpu.metrics import COUNTED

SCHEMA = 1
"""Of the data that `run` returns: raised when a name in it changes its meaning or goes."""
MOST_THREADS = 1 << 18
"""A launch of more threads runs a sample of its blocks, unless all are asked for."""
SAMPLED_THREADS = 1 << 15
_MOST_NAMED = 6  # launches that are not run
_LEFT_OUT = "not compiled: "
WIDEST = 32
"""Bytes that one lane asks for at most: what is wider is a box or a tile of an engine."""


def run(
    source: Source, options: Options, show: Callable[[dict[str, Any]], None] = lambda facts: None
) -> dict[str, Any]:
    """Run every launch of a file, once each, and return what was found: see `SCHEMA`.

    show: gets the same after each launch, with those so far.

    Raises TileError for a file that does not compile, and for what nothing tells.
    """
    lines = settings.directives(source.text)
    arch = options.arch or next((w["arch"] for _, w, _ in lines if "arch" in w), source.arch())
    values = dict(starmap(_number, options.set.items()))
    program = Program(source.text, values, options.define, arch)
    program.run()
    if program.mistake:
        raise ConfigError(program.mistake)
    wanted = _wanted(program, options, source, [kernel for kernel, _, _ in lines if kernel])
    not_run, missed = _not_run(program, wanted, options.kernel)
    if unused := sorted(set(values) - program.used - set(program.macros)):
        raise ConfigError(
            f"--set {unused[0]}: the host code has no variable of that name, or never comes to it"
        )
    expected = _expected(options.expect) if options.expect else None
    memory, compared = Memory(np.random.default_rng(options.seed)), False
    variables: dict[str, settings.Numbers] = {}
    launches: list[dict[str, Any]] = []
    guess = "nothing here calls the function that launches, so a guess: "
    facts: dict[str, Any] = {
        "schema": SCHEMA, "file": source.name, "arch": arch, "compiler": toolchain.compiler(),
        "status": "not followed" if missed else "clean",
        "host": "; ".join(filter(None, [
            guess + ", ".join(program.guessed) if program.guessed else program.cut_short,
            *map(source.say, not_run),
        ])),
        "launches": launches,
    }  # fmt: skip
    for event in wanted:
        if isinstance(event, Assigned):
            settings.assign(program, memory, event, variables)
            continue
        if isinstance(event, Filled):
            settings.fill(event)
            continue
        setting = settings.settle(program, event, options, memory)
        setting.guessed |= bool(program.guessed)
        want = _want(expected, setting, variables) if expected else None
        compared |= want is not None
        launches.append(_one(source, setting, arch, options, want or {}, variables))
        if launches[-1]["findings"]:
            facts["status"] = "findings"
        show(facts)
    if expected and not compared:
        kernels = [
            f"{x['kernel']}({', '.join(a['name'] for a in x['arguments'])})" for x in launches
        ]
        raise ConfigError(
            f"--expect {options.expect}: {expected.__name__}"
            f"({', '.join(inspect.signature(expected).parameters)}) names parameters that no "
            f"kernel run here has. Call them as the kernel does: {'; '.join(kernels)}"
        )
    return facts


def _number(name: str, text: str) -> tuple[str, int | float]:
    try:
        return name, number(text)
    except NotReadError:
        raise ConfigError(f"--set {name}={text}: give a number") from None


def _wanted(
    program: Program, options: Options, source: Source, named: Sequence[str]
) -> Sequence[Filled | Launched | Assigned]:
    """Launches and fills of the host code that are to run, in order; else one kernel or several.

    named: kernels that a `//!` line names.
    """
    kernel, kernels = options.kernel, program.kernels
    if not kernels:
        raise ConfigError(
            f"{source.name} has no kernel"
            + (
                program.by_macro
                or ": mark one with __global__ void name(...). A file of device "
                "functions alone has nothing to launch"
            )
        )
    events = [e for e in program.events if not isinstance(e, Launched) or _named(e.entry, kernel)]
    launches = [i for i, e in enumerate(events) if isinstance(e, Launched)]
    if len(launches) > options.launches:
        program.cut_short = (
            f"{options.launches} of {len(launches)} launches are run; --launches {len(launches)} "
            "runs all, --kernel those of one kernel"
        )
        return events[: launches[options.launches]]
    if launches:
        return events
    if "has that name" in program.cut_short and not kernel:
        called = program.cut_short.split()[0]
        raise ConfigError(f"{program.cut_short}. {near_matches(called, list(kernels))}")
    name, _, instance = kernel.partition("<")
    names = [full for full in kernels if _named(full, name)]
    names = [n for n in names if kernel or not named or n.split("::")[-1] in named]
    if not names:
        raise ConfigError(
            f"--kernel {kernel}: {source.name} has no kernel of that name. "
            + near_matches(kernel, [n.split("::")[-1] for n in kernels])
        )
    if len(names) > 1 and not named:
        why = f" ({program.cut_short})" if program.cut_short else ""
        raise ConfigError(
            f"{source.name} has {len(names)} kernels and launches none{why}: choose one by "
            f"--kernel: {', '.join(names)}"
        )
    if kernels[names[0]].templates and not instance:
        raise ConfigError(
            f"{names[0]} is a template, and nothing here launches it: name an instance, such as "
            f"--kernel '{names[0]}<16>'"
        )
    nowhere = Unknown("")
    entries = [f"{names[0]}<{instance}"] if instance else names
    return [Launched(entry, nowhere, nowhere, 0, None, (), 0) for entry in entries]


def _not_run(program: Program, wanted: Sequence[Any], kernel: str) -> tuple[list[str], bool]:
    """Launches of the file that are not run, in words, and whether one of them leaves a kernel
    without any, where the host code comes to it.
    """
    run, every = (
        {_name(e.entry) for e in events if isinstance(e, Launched) and _named(e.entry, kernel)}
        for events in (wanted, program.events)
    )
    out, missed = list[str](), not every <= run
    launches = [one for one in program.unmade() if _named(one[0], kernel)]
    for left_out, why in ((True, "not followed"), (False, "not come to")):
        some = sorted({(line, name) for name, line, left in launches if left == left_out})
        never = [one for one in some if _name(one[1]) not in run]
        missed |= left_out and bool(never)
        some = some if left_out else never
        words = [f"{name} in line {line}" for line, name in some[:_MOST_NAMED]]
        words += ["and more"] * (len(some) > _MOST_NAMED)
        if some:
            out.append(f"{why}, so not run: {', '.join(words)} (--kernel NAME runs one alone)")
    return out, missed


def _named(entry: str, wanted: str) -> bool:
    """Whether a kernel, or an instance, is the one that is wanted; "" wants any."""
    full = entry.replace(" ", "")
    return wanted.replace(" ", "") in ("", full, full.split("<")[0], _name(full))


def _name(entry: str) -> str:
    """A kernel's name without namespaces and template arguments."""
    return entry.split("<")[0].split("::")[-1]


def _sample(setting: Setting, blocks: str, whole: bool) -> int | None:
    """How many blocks are to run; None: all."""
    if blocks not in ("", "all"):
        if not blocks.isdigit() or not int(blocks):
            raise ConfigError(f"--blocks {blocks}: give how many, or all")
        return int(blocks)
    threads = math.prod(setting.block)
    if blocks or whole or threads * math.prod(setting.grid) <= MOST_THREADS:
        return None
    return max(4, SAMPLED_THREADS // threads)


def _one(
    source: Source, setting: Setting, arch: str, options: Options, want: Mapping[str, Any],
    variables: dict[str, settings.Numbers],
) -> dict[str, Any]:  # fmt: skip
    """Run one launch. variables: of the device, as launches before it left them."""
    started, sizes = time.perf_counter(), [f"{n} ({v.nbytes} bytes)" for n, v in variables.items()]
    unset = [a.formal.name for a in setting.arguments if a.unset]
    sample = _sample(setting, "all" if setting.cooperative else options.blocks, bool(want))
    try:
        report = launch(
            source.text, setting.kernel, setting.grid, setting.block,
            [a.value for a in setting.arguments], setting.shared_bytes, options.define, arch,
            name=source.name, samples=True, uninitialised=unset, expect=want,
            sample_blocks=sample,
            max_seconds=options.seconds, cluster=setting.cluster, variables=variables,
            cooperative=setting.cooperative,
        )  # fmt: skip
    except CompileError as error:
        hint = _hint(str(error), source.text)
        log = source.say(error.log) + hint
        raise CompileError(source.say(str(error)) + hint, log, source.name) from None
    except TileError as error:
        raise type(error)(source.say(str(error))) from None
    facts = {
        name: getattr(setting, name)
        for name in (
            "kernel",
            "grid",
            "block",
            "shared_bytes",
            "cluster",
            "cooperative",
            "line",
            "guessed",
        )
    }
    sized = {a.formal.name for a in setting.arguments if setting.guessed and a.source != "--arg"}
    drawn = [a.formal.name for a in setting.arguments if a.drawn]
    lines = [_line(a, source) for a in report.accesses]
    left_out = [n for n in report.notes if n.startswith(_LEFT_OUT)]
    return facts | {
        "from": {name: source.say(words) for name, words in setting.sources.items()},
        "arguments": [
            {
                "name": a.formal.name, "type": a.formal.text, "from": source.say(a.source),
                "value": a.words + f", not the host's (--arg {a.formal.name}=FILE.npy)" * a.drawn,
            }
            for a in setting.arguments
        ],
        "unset": unset, "variables": sizes,
        "findings": [_finding(f, source, sized, drawn) for f in report.findings],
        "lines": lines, "metrics": metrics(lines),
        **_resources(source, setting, arch, options.define),
        "sampled": sample is not None,
        "blocks_run": report.blocks_run, "blocks_total": report.blocks_total,
        "notes": [source.say(n) for n in report.notes if n not in left_out],
        "left_out": [
            source.say(n.replace(": give grid and block here instead", "")) for n in left_out
        ],
        "output": report.output,
        "seconds": round(time.perf_counter() - started, 3),
    }  # fmt: skip


def _hint(log: str, text: str) -> str:
    """What a beginner might not read in a compiler's message; "" where there is nothing."""
    called = re.search(r'identifier "(\w+)" is undefined', log)
    if called and re.search(rf"\b{called[1]}\s*\([^()]*\)\s*\{{", text):
        return (
            f"\n{called[1]} is a function of the host, which a kernel cannot call: mark it "
            "__device__ (or __host__ __device__) where it is defined"
        )
    if "constant value" in log and re.search(r"__shared__[^;\n]*\[", log):
        return (
            "\nThe size of a __shared__ array is a constant. One that the launch decides is "
            "extern __shared__ T name[], and its bytes are the third number in <<<>>>"
        )
    return ""


def _finding(
    finding: Finding, source: Source, guessed: set[str], drawn: Sequence[str]
) -> dict[str, Any]:
    """A finding as data. guessed: arrays whose sizes are; drawn: arrays of random whole numbers."""
    facts = asdict(source.placed(finding))
    facts["other_file"] = source.place(finding.other_line)[0] if finding.other_line else ""
    if finding.kind == "step-budget":
        facts["message"] = facts["message"].replace("a larger max_seconds", "more --seconds")
    if finding.kind == "out-of-bounds" and finding.array in guessed:
        facts["message"] += (
            f" (how large {finding.array} is was a guess: --arg {finding.array}=...)"
        )
    elif drawn and re.search(r"its (?:end|start)\b", finding.message):
        facts["message"] += (
            f" (if the index comes from {' or '.join(drawn)}: whole numbers at random stand there, "
            f"not the host's; --arg {drawn[0]}=FILE.npy gives others)"
        )
    return facts


def _line(access: LineAccess, source: Source) -> dict[str, Any]:
    facts = {k: v for k, v in asdict(access).items() if not k.startswith("sass_")}
    facts["file"], facts["line"] = source.place(access.line)
    conflicts = access.ideal_wavefronts is not None and access.space == "shared"
    facts["conflicts"] = access.wavefronts - (access.ideal_wavefronts or 0) if conflicts else 0
    return facts


def metrics(lines: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What ncu counts of the loads and stores of warps, by ncu's names. lines: see `_line`.

    Of the PTX: the machine code may join accesses. Engines (TMA, wgmma) and atomics are not among
    them.
    """
    sums = {}
    for key, name in COUNTED.items():
        space, op, what = key.split("_")
        column = "requests" if what == "instructions" else what
        counts = [
            x[column] for x in lines
            if (x["space"], x["op"]) == (space, op) and x["width_bytes"] <= WIDEST
        ]  # fmt: skip
        if counts:
            sums[name] = sum(counts)
    return sums


def _resources(
    source: Source, setting: Setting, arch: str, defines: Mapping[str, str]
) -> dict[str, Any]:
    """Registers and spills as ptxas has them, and the occupancy; why not, where it has none."""
    made = prepared(source.text, setting.kernel, arch=arch, defines=defines, name=source.name)
    try:
        used = toolchain.compile(
            made.source, name=source.name, arch=arch, defines=defines, options=made.options,
            name_expressions=() if setting.kernel.isidentifier() else (setting.kernel,),
        ).kernels[made.entry]  # fmt: skip
        shared, threads = used.shared_bytes + setting.shared_bytes, math.prod(setting.block)
        o = device.occupancy(device.limits(arch), threads, used.registers, shared)
    except (ToolchainError, KeyError, ConfigError) as error:
        return {"resources": None, "occupancy": None, "no_resources": str(error)}
    names = ("registers", "spill_stores", "spill_loads", "stack")
    resources = {n: getattr(used, n) for n in names} | {"shared_bytes": shared}
    facts = {n: getattr(o, n) for n in ("blocks", "warps", "limited_by")}
    occupancy = facts | {"percent": 100 * o.fraction}
    return {"resources": resources, "occupancy": occupancy, "no_resources": ""}


def _expected(text: str) -> Callable[..., Any]:
    """The function of the user's that `--expect` names. Raises ConfigError if it is not there.

    Its parameters are names of the kernel's, all others go to **rest where it has one; it returns a
    dictionary of arrays by name, or the one array that the kernel writes.
    """
    path, _, name = text.rpartition(":")
    if not path or not name.isidentifier():
        raise ConfigError(f"--expect {text}: give a file and a function, such as want.py:add")
    try:
        made = runpy.run_path(path, run_name="expected")
    except Exception as error:  # whatever a file of the user's raises
        raise ConfigError(f"--expect {text}: {type(error).__name__}: {error}") from error
    functions = {n: v for n, v in made.items() if inspect.isfunction(v)}
    if name not in functions:
        names = near_matches(name, functions)
        raise ConfigError(f"--expect {text}: {path} has no function {name}. {names}")
    return functions[name]


def _want(
    function: Callable[..., Any], setting: Setting, variables: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What arrays should hold, by name; None where a parameter is none of the kernel's.

    variables: of the device, which the function may ask for, too.
    """
    by_name = {a.formal.name: a for a in setting.arguments}
    known = {**variables, **{name: a.plain for name, a in by_name.items()}}
    formals = inspect.signature(function).parameters.values()
    parameters = [f.name for f in formals if f.kind is not f.VAR_KEYWORD]
    if not set(parameters) <= set(known) or (parameters and not set(parameters) & set(by_name)):
        return None
    if len(parameters) < len(formals):  # **rest takes the others
        parameters = list(known)
    try:
        wanted = function(**{name: known[name] for name in parameters})
    except Exception as error:
        raise ConfigError(
            f"--expect: {function.__name__}(): {type(error).__name__}: {error}"
        ) from error
    if not isinstance(wanted, Mapping):
        outputs = [a.formal.name for a in setting.arguments if a.output]
        if len(outputs) != 1:
            raise ConfigError(
                f"--expect: {function.__name__}() returned one array, and {setting.kernel} may "
                f"write {len(outputs)}: {', '.join(outputs) or 'none'}. Return a dictionary by name"
            )
        wanted = {outputs[0]: wanted}
    return {name: _shaped(value, by_name.get(name)) for name, value in wanted.items()}


def _shaped(value: Any, argument: settings.Argument | None) -> Any:
    """An expected array in the shape of the kernel's, with the bound that came with it.

    What lies behind a tensor map is compared in the order of the memory.
    """
    array, *bound = value if isinstance(value, tuple) else (value,)
    array, have = np.asarray(array), argument.value if argument else None
    view = have.array if isinstance(have, TensorMap) else have
    if isinstance(view, np.ndarray) and array.size == view.size:
        array = array.reshape(view.shape)
        if isinstance(have, TensorMap):
            flat = np.empty(array.size, array.dtype)
            strides = [n // view.itemsize * array.itemsize for n in view.strides]
            np.ndarray(view.shape, array.dtype, flat, 0, strides)[...] = array
            array = flat
    return (array, *bound) if bound else array
