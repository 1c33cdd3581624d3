"""The words that each PTX opcode may carry: a launch with any other word is refused by name.

An instruction such as `min.xorsign.abs.f32` is an opcode, modifiers and types. The lowering (`lower`)
asks for those modifiers that it knows of; one that it does not ask for would be ignored, and the
result wrong without a word. So each opcode lists here, form by form, all words that are either read
there or change nothing that the emulator models (hints for caches, `.aligned`, `.uni`).

A form is `modifiers : types`; an instruction is known if one form of its opcode holds all its words.
Source: PTX ISA 9.0, the syntax of each instruction.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

_INTS = "s16 u16 s32 u32 s64 u64"
_BITS = "b16 b32 b64"
_ANY = f"pred {_BITS} {_INTS} f16 bf16 f16x2 bf16x2 f32 f64"
_ROUND = "rn rz rm rp"
_SPACE = "global shared shared::cta local const param"
_ORDER = "weak volatile relaxed acquire release acq_rel mmio cta cluster gpu sys"
_CACHE = (
    "ca cg cs lu cv wb wt nc unified L1::evict_normal L1::evict_unchanged L1::evict_first "
    "L1::evict_last L1::no_allocate L2::evict_normal L2::evict_first L2::evict_last "
    "L2::cache_hint L2::64B L2::128B L2::256B"
)
_MOVED = f"b8 s8 u8 {_BITS} {_INTS} f32 f64"
_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz"
_COMPARED = f"{_BITS} {_INTS} f16 bf16 f16x2 bf16x2 f32 f64"
_SHAPE = re.compile(r"m\d+n\d+k\d+")  # which of these are emulated `tensor` says
_BARRIER = "sync red arrive warp cta popc and or aligned : u32 pred"
_EXTREME = f": {_INTS} f64 | relu : s32 | ftz NaN xorsign abs : f32 f16 f16x2 | NaN xorsign abs : bf16 bf16x2"
_HALF_SUM = "rn ftz sat : f16 f16x2 | rn : bf16 bf16x2"
_MATRIX = "sync aligned row col satfinite"
_PLAIN = "s8 u8 s16 u16 s32 u32 s64 u64"

FORMS: dict[str, str] = {
    # arithmetic
    **dict.fromkeys(
        ("add", "sub"),
        f"{_ROUND} ftz sat : f32 | {_ROUND} : f64 | {_HALF_SUM} | sat : s32 | cc : s32 u32 s64 u64"
        f" | : {_INTS}",
    ),
    "mul": f"{_ROUND} ftz sat : f32 | {_ROUND} : f64 | {_HALF_SUM} | lo hi wide : {_INTS}",
    "fma": f"{_ROUND} ftz sat : f32 | {_ROUND} : f64 | rn ftz sat relu : f16 f16x2"
    " | rn relu : bf16 bf16x2",
    "mad": f"{_ROUND} ftz sat : f32 | {_ROUND} : f64 | lo hi wide : {_INTS} | hi sat : s32"
    " | lo hi cc : s32 u32 s64 u64",
    **dict.fromkeys(("addc", "subc"), "cc : s32 u32 s64 u64"),
    "madc": "lo hi cc : s32 u32 s64 u64",
    "mul24": "lo hi : s32 u32",
    "mad24": "lo hi : s32 u32 | hi sat : s32",
    "div": f": {_INTS} | approx full ftz : f32 | {_ROUND} ftz : f32 | {_ROUND} : f64",
    "rem": f": {_INTS}",
    "sad": f": {_INTS}",
    **dict.fromkeys(("abs", "neg"), "ftz : f32 f16 f16x2 | : s16 s32 s64 f64 bf16 bf16x2"),
    **dict.fromkeys(("min", "max"), _EXTREME),
    **dict.fromkeys(("sin", "cos", "lg2"), "approx ftz : f32"),
    "ex2": "approx ftz : f32 bf16 bf16x2 | approx : f16 f16x2",
    "tanh": "approx : f32 f16 f16x2 bf16 bf16x2",
    "sqrt": f"approx ftz : f32 | {_ROUND} ftz : f32 | {_ROUND} : f64",
    "rcp": f"approx ftz : f32 f64 | {_ROUND} ftz : f32 | {_ROUND} : f64",
    "rsqrt": "approx ftz : f32 f64",
    "testp": "finite infinite number notanumber normal subnormal : f32 f64",
    "copysign": ": f32 f64",
    # bits
    **dict.fromkeys(("and", "or", "xor", "not"), f": pred {_BITS}"),
    "cnot": f": {_BITS}",
    "lop3": ": b32",
    "shl": f": {_BITS}",
    "shr": f": {_BITS} {_INTS}",
    "shf": "l r clamp wrap : b32",
    "bfe": ": s32 u32 s64 u64",
    "bfi": ": b32 b64",
    "bfind": "shiftamt : s32 u32 s64 u64",
    **dict.fromkeys(("popc", "clz", "brev"), ": b32 b64"),
    "bmsk": "clamp wrap : b32",
    "szext": "clamp wrap : s32 u32",
    "prmt": "f4e b4e rc8 ecl ecr rc16 : b32",
    "dp4a": ": s32 u32",
    "dp2a": "lo hi : s32 u32",
    # predicates, moves, conversions
    "setp": f"{_COMPARE} : {_COMPARED}",
    "set": f"{_COMPARE} : {_COMPARED}",
    "selp": f": {_MOVED}",
    "slct": f": {_BITS} {_INTS} f32 f64 | ftz : {_BITS} {_INTS} f32 f64",
    "mov": f": {_ANY}",
    "cvta": f"to {_SPACE} : u32 u64",
    "isspacep": f"{_SPACE} shared::cluster",
    "cvt": f"{_ROUND} rni rzi rmi rpi ftz sat : {_PLAIN} f16 f32 f64"
    f" | {_ROUND} rni rzi rmi rpi ftz relu : f16 bf16 f32"
    f" | {_ROUND} rni rzi rmi rpi : bf16 {_PLAIN} f16 f32 f64"
    " | rn rz relu : f16x2 bf16x2 f32 | rna rn rz : tf32 f32"
    " | rn satfinite relu : e4m3x2 e5m2x2 f32 f16x2",
    # memory
    **dict.fromkeys(("ld", "ldu"), f"{_ORDER} {_SPACE} {_CACHE} v2 v4 v8 : {_MOVED}"),
    "st": f"{_ORDER} {_SPACE} {_CACHE} v2 v4 v8 : {_MOVED}",
    **dict.fromkeys(
        ("atom", "red"),
        f"add {_ORDER} {_SPACE} noftz L2::cache_hint : s32 u32 s64 u64 f16 f16x2 bf16 bf16x2 f32 f64"
        f" | min max {_ORDER} {_SPACE} L2::cache_hint : s32 u32 s64 u64"
        f" | inc dec {_ORDER} {_SPACE} L2::cache_hint : u32"
        f" | and or xor exch {_ORDER} {_SPACE} L2::cache_hint : b32 b64"
        f" | cas {_ORDER} {_SPACE} L2::cache_hint : b16 b32 b64",
    ),
    "membar": "cta gl sys",
    "fence": "sc acq_rel acquire release cta gpu sys",
    "prefetch": "global local L1 L2 L2::evict_last L2::evict_normal",
    "prefetchu": "L1",
    "discard": "global L2",
    "applypriority": "global L2::evict_normal",
    "cp": f"async ca cg shared shared::cta global {_CACHE}"
    " | async commit_group | async wait_group | async wait_all"
    " | async mbarrier arrive noinc shared shared::cta : b64",
    "mbarrier": "init inval arrive arrive_drop test_wait try_wait pending_count noComplete parity"
    " shared shared::cta acquire release cta cluster : b64",
    # control
    "bra": "uni",
    "brx": "idx uni",
    "ret": "uni",
    "call": "uni",
    **dict.fromkeys(("exit", "trap"), ""),
    **dict.fromkeys(("bar", "barrier"), _BARRIER),
    "nanosleep": ": u32",
    "pmevent": "mask",
    "griddepcontrol": "launch_dependents wait",
    # warps and matrices
    "shfl": "sync up down bfly idx : b32",
    "vote": "sync all any uni ballot : pred b32",
    "match": "sync any all : b32 b64",
    "redux": "sync add min max : s32 u32 | sync and or xor : b32",
    "elect": "sync",
    "activemask": ": b32",
    "ldmatrix": "sync aligned m8n8 x1 x2 x4 trans shared shared::cta : b16",
    "stmatrix": "sync aligned m8n8 x1 x2 x4 trans shared shared::cta : b16",
    "movmatrix": "sync aligned m8n8 trans : b16",
    "mma": f"{_MATRIX} : f16 bf16 tf32 f32 f64 s8 u8 s32 e4m3 e5m2",
    "wmma": f"load store mma a b c d {_MATRIX} rn global shared shared::cta"
    " : f16 bf16 tf32 f32 f64 s8 u8 s32",
}
"""Forms of each opcode, between bars: modifiers, a colon, types (any of them, in any number)."""


@cache
def _forms(root: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(form.split()) - {":"} for form in FORMS[root].split("|"))


@lru_cache(maxsize=4096)
def unknown(parts: tuple[str, ...]) -> str:
    """Why an opcode, split at its dots, is not known with all its words; "" if it is."""
    root = parts[0]
    if root not in FORMS:
        return "it is not among the instructions that the emulator knows"
    words = [w for w in parts[1:] if not (root in ("mma", "wmma") and _SHAPE.fullmatch(w))]
    forms = _forms(root)
    if any(form.issuperset(words) for form in forms):
        return ""
    known = frozenset().union(*forms)
    strange = [w for w in words if w not in known]
    if not strange:
        nearest = max(forms, key=lambda form: sum(w in form for w in words))
        left = " ".join(f".{w}" for w in words if w not in nearest)
        beside = " ".join(f".{w}" for w in words if w in nearest)
        return f"{root} with {left} beside {beside} is not among the forms that the emulator knows"
    named = " ".join(f".{w}" for w in strange)
    listed = " ".join(f".{w}" for w in sorted(known)) or "none"
    return f"{named} is not known for {root}, and leaving it out may change the result. Known: {listed}"
