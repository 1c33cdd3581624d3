"""What `session.run` gathered, as text for a terminal and as one page that opens anywhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

from nogpu.emulator import Finding

Facts = Mapping[str, Any]


def _setting(launch: Facts) -> list[tuple[str, str]]:
    """What a launch ran with: in words, and where each is from."""
    sizes = {what: "x".join(map(str, launch[what] or ())) for what in ("grid", "block", "cluster")}
    words = {what: f"{what} {size}" for what, size in sizes.items() if size}
    if launch["shared_bytes"]:
        words["shared"] = f"dynamic shared {launch['shared_bytes']} bytes"
    words |= {"cooperative": "cooperative"} if launch["cooperative"] else {}
    rows = [(text, launch["from"].get(what, "")) for what, text in words.items()]
    rows += [(name, "the host, or launches before") for name in launch["variables"]]
    return rows + [(f"{a['name']} = {a['value']}", a["from"]) for a in launch["arguments"]]


def _fault(finding: Facts) -> str:
    return str(Finding(**{k: v for k, v in finding.items() if k != "other_file"}))


_HEAD = (
    f"{'line':>5} {'memory':6} {'op':6} {'array':12} {'requests':>9} {'sectors':>9} "
    f"{'a request':>9} {'wavefronts':>10} {'conflicts':>9}  source"
)


def _access(a: Facts) -> str:
    counts = f"{'':19} {a['wavefronts']:10d} {a['conflicts']:9d}"
    if a["space"] == "global":
        counts = f"{a['sectors']:9d} {a['sectors'] / max(a['requests'], 1):9.2f} {'':20}"
    return (
        f"{a['line']:5d} {a['space']:6} {a['op']:6} {a['array'][:12]:12} {a['requests']:9d} "
        f"{counts}  {a['text'].strip()}"
    )


def advice(a: Facts) -> str:
    """A word on a row whose count is bad: what it is, beside what it might be; "" where none is."""
    if a["op"] not in ("load", "store") or not a["requests"]:
        return ""
    if a["space"] == "global" and (best := a["ideal_sectors"]) and a["sectors"] >= 2 * best:
        return (
            f"uncoalesced: {a['sectors'] / a['requests']:.1f} sectors a request, and "
            f"{best / a['requests']:.1f} would hold the same elements side by side"
        )
    if a["space"] == "shared" and a["conflicts"]:
        ideal = a["wavefronts"] - a["conflicts"]
        return (
            f"bank conflicts: {a['wavefronts'] / a['requests']:.1f} wavefronts a request, and "
            f"{ideal / a['requests']:.1f} would do"
        )
    return ""


def _use(launch: Facts) -> list[str]:
    used, o = launch["resources"], launch["occupancy"]
    if not used:
        return [f"registers and occupancy: {launch['no_resources']}"]
    spills = used["spill_stores"] + used["spill_loads"]
    return [
        f"{used['registers']} registers a thread, {spills or 'no'} bytes of spills, "
        f"{used['shared_bytes']} bytes of shared memory a block",
        f"occupancy {o['percent']:.0f} % ({o['warps']} warps of {o['blocks']} blocks an SM; "
        f"limited by {' and '.join(o['limited_by'])})",
    ]


def _head(launch: Facts) -> list[str]:
    """What was run, with what, and what was found."""
    some, every, found = launch["blocks_run"], launch["blocks_total"], launch["findings"]
    rows = _setting(launch)
    width = max(len(words) for words, _ in rows)
    sample = ["   a sample of the blocks, counted as it is; --blocks all runs every one"]
    return [
        f"== {launch['kernel']}: {some} of {every} blocks, {launch['seconds']} s",
        *(f"   {words:{width}}  from {source}" for words, source in rows),
        *(sample if launch["sampled"] else []), *launch["left_out"],
        f"{len(found)} finding(s)" if found else "no findings",
    ]  # fmt: skip


def _foot(launch: Facts) -> list[str]:
    """Counts of the launch as a whole, what it uses, notes, and what it printed."""
    out = []
    if launch["metrics"]:
        out += ["", "as Nsight Compute calls them (of the PTX, of the blocks that ran):"]
        out += [f"  {name:62} {count:>12,}" for name, count in launch["metrics"].items()]
    out += ["", *_use(launch), *launch["notes"]]
    return out + (["printed:", launch["output"].rstrip("\n")] if launch["output"] else [])


def latest(facts: Facts) -> str:
    """For a terminal: what the last launch adds to the report, with the report's head if first."""
    *before, launch = facts["launches"]
    by = f"for {facts['arch']}, compiled by {facts['compiler']}; no GPU was used"
    out = [] if before else [f"{facts['file']} {by}"]
    if facts["host"] and not before:
        out.append(f"host code: {facts['host']}")
    known = {line for earlier in before for line in earlier["left_out"]}
    out += ["", *(line for line in _head(launch) if line not in known)]
    out += map(_fault, launch["findings"])
    out += ["", _HEAD] if launch["lines"] else []
    for a in launch["lines"]:
        out += [_access(a), *(f"      ^ {word}" for word in (advice(a),) if word)]
    return "\n".join(out + _foot(launch))


_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #59636e;
  --bad: #b3261e; --badback: #fdecea; --warm: #8a5200; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --text: #e6e9ec; --soft: #a4adb6;
  --bad: #ff9d94; --badback: #3a1a18; --warm: #f0b35c; } }
body { margin: 0; padding: 1rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
pre, .scroll { overflow-x: auto; font: .85rem/1.45 ui-monospace, monospace; }
pre { white-space: pre-wrap; }
table { border-collapse: collapse; }
td { text-align: left; vertical-align: top; white-space: pre; padding: 0 .8rem 0 0; }
.n, .count { color: var(--soft); text-align: right; } .n { user-select: none; }
.warm { color: var(--warm); } .bad td { background: var(--badback); }
.fault td { white-space: normal; color: var(--bad); background: var(--badback); }
"""


def _margin(rows: Iterable[Facts]) -> str:
    """What stands beside a line: its counts, and words on those that are bad."""
    cells = []
    for a in rows:
        what, word = ("sectors",) * 2 if a["space"] == "global" else ("wavefronts", "waves")
        each = f"{a[what] / max(a['requests'], 1):.1f} {word}"
        cells.append(f"{a['array'] or a['space']} {a['op']}: {a['requests']:,} x {each}")
    words = "; ".join(filter(None, map(advice, rows)))
    counts = html.escape("\n".join(cells))
    return f"<td class=count>{counts}<td class=warm>{html.escape(words)}"


def as_html(facts: Facts, text: str) -> str:
    """A page of its own: each launch, and the file with a margin of counts and faults.

    text: of the file. What lies in files that it includes is listed below it.
    """
    file = html.escape(facts["file"])
    body = [f"<h1>{file}</h1>", f"<p>For {facts['arch']}, compiled by {facts['compiler']}; no GPU."]
    for launch in facts["launches"]:
        away = [_fault(f) for f in launch["findings"] if f["file"] != facts["file"]]
        body += [
            f"<h2>{html.escape(launch['kernel'])}</h2>",
            f"<pre>{html.escape(chr(10).join(_head(launch)))}</pre>",
            _source(launch, facts["file"], text),
            f"<pre>{html.escape(chr(10).join([*away, *_foot(launch)]))}</pre>",
        ]
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{file}</title>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _source(launch: Facts, file: str, text: str) -> str:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        counts, faults = (
            [x for x in launch[what] if (x["file"], x["line"]) == (file, number)]
            for what in ("lines", "findings")
        )
        bad = " class=bad" if faults else ""
        rows.append(f"<tr{bad}><td class=n>{number}<td>{html.escape(line)}{_margin(counts)}")
        for f in faults:
            times = f" ({f['count']} times)" if f["count"] > 1 else ""
            words = html.escape(f["message"])
            rows.append(f"<tr class=fault><td><td colspan=3><b>{f['kind']}</b>{times}: {words}")
    return f"<div class=scroll><table>{''.join(rows)}</table></div>"
