"""The table of PTX opcodes: the one place that says of each what it is.

An instruction such as `min.xorsign.abs.f32` is an opcode, modifiers and types. A row says which of
these words it may carry, what its operands are, what it touches in memory, where it ends a block,
who of a warp takes part, and how it becomes Python. A new opcode whose Python is one expression
needs a row here and nothing else; a longer one says so by having no `emit`, and a function of the
same name does it (see `emit.lowers`). Source: PTX ISA 9.0, the syntax of each instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache


@dataclass(frozen=True)
class Op:
    """What an opcode is.

    args: its operands in order. The first is the destination if it is called "d"; "member" is the
    mask of the lanes of a warp that take part. "b:i4" is read as that NumPy type, "b" as the type
    of the instruction. An instruction may have fewer. words: its forms, between bars: modifiers, a
    colon, types (any of them, in any number). An instruction is known if one form holds all its
    words: any other might change the result, so a word is either read in the lowering or changes
    nothing that the emulator models (hints for caches, `.aligned`, `.uni`). emit: its Python: an
    expression for "d", or a statement. In braces stand operands and what `emit.Fields` lists. None:
    a function of that name; "": nothing to do. touches: memory: "load", "constant" (a load of what
    nobody changes), "store", "atomic", "fence", "mbarrier", "bulk" (what the copy engine does),
    "shared load" and "shared store" (of shared memory, however it is addressed), "call" (whatever
    the function does), or nothing. ends: how it ends a basic block: "jump", "table", "exit",
    "trap", "barrier", "poll", "gate"; "call": the block ends, but the instruction is lowered like
    any other. whole_warp: all lanes take part, and no operand says so. warpgroup: all four warps of
    a warpgroup do. keeps: the destination is read as well. instead: words that are refused, and
    what to use instead. refused: the same for the opcode.
    """

    args: str = ""
    words: str = ""
    emit: str | None = None
    touches: str = ""
    ends: str = ""
    whole_warp: bool = False
    warpgroup: bool = False
    keeps: bool = False
    instead: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""

    @property
    def writes(self) -> bool:
        """Whether the first operand is a destination."""
        return self.args.startswith("d")

    @property
    def member(self) -> int | None:
        """Place of the operand that names the lanes of a warp; None: there is no such operand."""
        names = [name.partition(":")[0] for name in self.args.split()]
        return names.index("member") if "member" in names else None


_INTS = "s16 u16 s32 u32 s64 u64"
_LONG = "s32 u32 s64 u64"
_BITS = "b16 b32 b64"
_ANY = f"pred {_BITS} {_INTS} f16 bf16 f16x2 bf16x2 f32 f64"
_ROUND = "rn rz rm rp"
_SPACE = "global shared shared::cta shared::cluster local const param"
_ORDER = "weak volatile relaxed acquire release acq_rel mmio cta cluster gpu sys"
_CACHE = (
    "ca cg cs lu cv wb wt nc unified L1::evict_normal L1::evict_unchanged L1::evict_first "
    "L1::evict_last L1::no_allocate L2::evict_normal L2::evict_first L2::evict_last "
    "L2::cache_hint L2::64B L2::128B L2::256B"
)
_MOVED = f"b8 s8 u8 {_BITS} {_INTS} f32 f64"
_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz"
_COMPARED = f"{_BITS} {_INTS} f16 bf16 f16x2 bf16x2 f32 f64"
_SHAPE = re.compile(r"m\d+n\d+k\d+")  # which of these are emulated `matrices` says
_BARRIER = "sync red arrive warp cta popc and or aligned : u32 pred"
_EXTREME = (
    f": {_INTS} f64 | relu : s32 | ftz NaN xorsign abs : f32 f16 f16x2"
    " | NaN xorsign abs : bf16 bf16x2"
)
_HALF_SUM = "rn ftz sat : f16 f16x2 | rn : bf16 bf16x2"
_MATRIX = "sync aligned row col satfinite"
_PLAIN = "s8 u8 s16 u16 s32 u32 s64 u64"
_FLOAT_ROUND = f"{_ROUND} ftz sat : f32 | {_ROUND} : f64"
_HINT = "L2::cache_hint"
_ATOMIC = (
    f"add {_ORDER} {_SPACE} noftz {_HINT} : s32 u32 s64 u64 f16 f16x2 bf16 bf16x2 f32 f64 | min "
    f"max {_ORDER} {_SPACE} {_HINT} : s32 u32 s64 u64 | inc dec {_ORDER} {_SPACE} {_HINT} : u32 | "
    f"and or xor exch {_ORDER} {_SPACE} {_HINT} : b32 b64 | cas {_ORDER} {_SPACE} {_HINT} : b16 "
    "b32 b64"
)
_MBARRIER = (
    "init inval arrive arrive_drop test_wait try_wait pending_count noComplete parity expect_tx "
    "complete_tx shared shared::cta shared::cluster acquire release relaxed cta cluster : b64"
)
_WMMA = (
    f"load store mma a b c d {_MATRIX} rn global shared shared::cta"
    " : f16 bf16 tf32 f32 f64 s8 u8 s32"
)
_WGMMA = (
    "mma_async sync aligned : f16 bf16 tf32 f32 e4m3 e5m2"
    " | mma_async sync aligned satfinite : s8 u8 s32"
)
_LDMATRIX = "sync aligned m8n8 x1 x2 x4 trans shared shared::cta : b16"
_BULK = (
    "async bulk tensor 1d 2d 3d 4d 5d tile shared::cluster shared::cta global "
    "mbarrier::complete_tx::bytes multicast::cluster bulk_group cta_group::1 cta_group::2 "
    "L2::cache_hint | async bulk "
    "commit_group | async bulk wait_group read | async bulk prefetch tensor 1d 2d 3d 4d 5d tile "
    "L2 global L2::cache_hint"
)
_NO_GATHER = {
    "im2col": "boxes of images (im2col) are not emulated. Copy boxes of a tensor (.tile)",
    "tile::gather4": "gathered rows are not emulated. Copy boxes of a tensor (.tile)",
    "tile::scatter4": "scattered rows are not emulated. Copy boxes of a tensor (.tile)",
    "cp_mask": "masks of bytes are not emulated. Copy whole multiples of 16 bytes",
}
_NO_SUMS_THERE = (
    "sums in the shared memory of a peer by the copy engine are not emulated. Add with atomics"
)
_SUMS = "reduce async bulk shared::cta global bulk_group L2::cache_hint"
_AXES = "tensor 1d 2d 3d 4d 5d tile"
_REDUCE = (
    f"add {_SUMS} : s32 u32 u64 f32 f64 | add noftz {_SUMS} : f16 bf16 | min max {_SUMS} : s32 u32 "
    f"s64 u64 f16 bf16 | inc dec {_SUMS} : u32 | and or xor {_SUMS} : b32 b64"
)
_COPY = (
    f"async ca cg shared shared::cta global {_CACHE} | async commit_group | async wait_group | "
    "async wait_all | async mbarrier arrive noinc shared shared::cta : b64"
)

_PAIR = "cta_group::1 cta_group::2"
_TENSOR_KINDS = (
    "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 "
    "block_scale scale_vec::1X scale_vec::2X scale_vec::4X block16 block32"
)
_COLLECTOR = " ".join(
    f"collector::{kept}::{use}"
    for kept in ("a", "b0", "b1", "b2", "b3")
    for use in ("fill", "use", "lastuse", "discard")
)
_TENSOR = f"{_PAIR} sync aligned shared::cta shared::cluster : b32 b64"
_TENSOR_SHAPE = (
    "sync aligned 32x32b 16x64b 16x128b 16x256b x1 x2 x4 x8 x16 x32 x64 x128 pack::16b unpack::16b"
    " : b32"
)
_NO_TENSOR = {
    "sp": "sparse matrices are not emulated. Use tcgen05.mma without .sp",
    "16x32bx2": "the shape .16x32bx2 is not emulated. Use .32x32b",
    "red": "loads that reduce are not emulated. Reduce the registers",
}

_NOT_DENSE = {
    "sp": "sparse matrices are not emulated. Use wgmma.mma_async without .sp, and K half as long",
    "b1": "matrices of single bits are not emulated. Use .s8 or .u8",
}
NEWER = (
    "of what Hopper and newer GPUs brought, the emulator runs TMA, wgmma, clusters and products in "
    "tensor memory, but not this. Use one of those, or run the kernel on such a GPU"
)
_TEXTURE = (
    "textures and surfaces are not emulated. Read from a pointer instead: tex1Dfetch at i is "
    "x[i]; for tex2D keep the indices inside the image and interpolate where the texture would"
)
_STACK = "stack memory of run-time size is not emulated. Use an array of fixed size"


def _newer(*words: str) -> dict[str, str]:
    return dict.fromkeys(words, NEWER)


_PHASE = Op("d address count", _MBARRIER, touches="mbarrier")
_MET = Op("number threads", _BARRIER, ends="barrier", instead=_newer("cluster"))
_VOTED = Op("d p number threads", _BARRIER, ends="barrier", instead=_newer("cluster"))
_WARP_MET = Op("member:i4", _BARRIER)
_SUM = Op("d a b", f"{_FLOAT_ROUND} | {_HALF_SUM} | sat : s32 | cc : {_LONG} | : {_INTS}")
_SIGN = Op("d a", "ftz : f32 f16 f16x2 | : s16 s32 s64 f64 bf16 bf16x2")
_LEAST = Op("d a b", _EXTREME)
_APPROX = Op("d a", "approx ftz : f32")
_LOAD = Op("d address", f"{_ORDER} {_SPACE} {_CACHE} v2 v4 v8 : {_MOVED}", touches="load")

OPS: dict[str, Op] = {
    # arithmetic
    "add": _SUM,
    "sub": _SUM,
    "mul": Op("d a b", f"{_FLOAT_ROUND} | {_HALF_SUM} | lo hi wide : {_INTS}"),
    "fma": Op("d a b c", f"{_FLOAT_ROUND} | rn ftz sat relu : f16 f16x2 | rn relu : bf16 bf16x2"),
    "mad": Op("d a b c", f"{_FLOAT_ROUND} | lo hi wide : {_INTS} | hi sat : s32"
              f" | lo hi cc : {_LONG}"),
    "addc": Op("d a b", f"cc : {_LONG}"),
    "subc": Op("d a b", f"cc : {_LONG}"),
    "madc": Op("d a b c", f"lo hi cc : {_LONG}"),
    "mul24": Op("d a b", "lo hi : s32 u32"),
    "mad24": Op("d a b c", "lo hi : s32 u32 | hi sat : s32"),
    "div": Op("d a b", f": {_INTS} | approx full ftz : f32 | {_ROUND} ftz : f32 | {_ROUND} : f64"),
    "rem": Op("d a b", f": {_INTS}", "rem_int({a}, {b})"),
    "sad": Op("d a b c", f": {_INTS}", "sad({a}, {b}, {c})"),
    "abs": _SIGN,
    "neg": _SIGN,
    "min": _LEAST,
    "max": _LEAST,
    "sin": _APPROX,
    "cos": _APPROX,
    "lg2": _APPROX,
    "ex2": Op("d a", "approx ftz : f32 bf16 bf16x2 | approx : f16 f16x2"),
    "tanh": Op("d a", "approx : f32 f16 f16x2 bf16 bf16x2"),
    "sqrt": Op("d a", f"approx ftz : f32 | {_ROUND} ftz : f32 | {_ROUND} : f64"),
    "rcp": Op("d a", f"approx ftz : f32 f64 | {_ROUND} ftz : f32 | {_ROUND} : f64"),
    "rsqrt": Op("d a", "approx ftz : f32 f64"),
    "testp": Op("d:b1 a", "finite infinite number notanumber normal subnormal : f32 f64",
                "test_property({a}, {word!r})"),
    "copysign": Op("d a b", ": f32 f64", "copysign({b}, {a})"),
    # bits
    "and": Op("d a b", f": pred {_BITS}"),
    "or": Op("d a b", f": pred {_BITS}", "{a} | {b}"),
    "xor": Op("d a b", f": pred {_BITS}", "{a} ^ {b}"),
    "not": Op("d a", f": pred {_BITS}", "~{a}"),
    "cnot": Op("d a", f": {_BITS}", "({a} == 0).astype({kind})"),
    "lop3": Op("d a b c table", ": b32"),
    "shl": Op("d a n", f": {_BITS}"),
    "shr": Op("d a n", f": {_BITS} {_INTS}"),
    "shf": Op("d a b c", "l r clamp wrap : b32", "funnel({a}, {b}, {c}, {has[l]}, {has[clamp]})"),
    "bfe": Op("d a b:i4 c:i4", f": {_LONG}", "extract({a}, {b}, {c})"),
    "bfi": Op("d a b c:i4 n:i4", ": b32 b64", "insert({a}, {b}, {c}, {n})"),
    "bfind": Op("d:i4 a", f"shiftamt : {_LONG}", "find_leading({a}, {has[shiftamt]})"),
    "popc": Op("d:i4 a", ": b32 b64", "popcount({a})"),
    "clz": Op("d:i4 a", ": b32 b64", "leading_zeros({a})"),
    "brev": Op("d a", ": b32 b64", "reverse_bits({a})"),
    "bmsk": Op("d a b", "clamp wrap : b32",
               "insert({i4[-1]}, {i4[0]}, clamped({a}, {has[wrap]}), clamped({b}, {has[wrap]}))"),
    "szext": Op("d a b:i4", "clamp wrap : s32 u32",
                "extract({a}, {i4[0]}, clamped({b}, {has[wrap]}))"),
    "prmt": Op("d a b c", "f4e b4e rc8 ecl ecr rc16 : b32", "permute({a}, {b}, {c}, {mode!r})"),
    "dp4a": Op("d:i4 a:i4 b:i4 c:i4", ": s32 u32",
               "dot_bytes({a}, {b}, {c}, {signed[0]}, {signed[1]})"),
    "dp2a": Op("d:i4 a:i4 b:i4 c:i4", "lo hi : s32 u32",
               "dot_halves({a}, {b}, {c}, {signed[0]}, {signed[1]}, {has[hi]})"),
    # predicates, moves, conversions
    "setp": Op("d a b c", f"{_COMPARE} : {_COMPARED}"),
    "set": Op("d a b c", f"{_COMPARE} : {_COMPARED}"),
    "selp": Op("d a b p", f": {_MOVED}"),
    "slct": Op("d a b c", f": {_BITS} {_INTS} f32 f64 | ftz : {_BITS} {_INTS} f32 f64"),
    "mov": Op("d a", f": {_ANY}"),
    "cvta": Op("d a", f"to {_SPACE} : u32 u64"),
    "isspacep": Op("d:b1 a:i8", _SPACE, "is_space({a}, {word!r})"),
    "mapa": Op("d a b:i4", "shared::cluster : u32 u64", "map_rank(S, {a}, {b})"),
    "getctarank": Op("d:i4 a", "shared::cluster : u32 u64", "rank_of(S, {a})"),
    "cvt": Op("d a b", f"{_ROUND} rni rzi rmi rpi ftz sat : {_PLAIN} f16 f32 f64"
              f" | {_ROUND} rni rzi rmi rpi ftz relu : f16 bf16 f32 | {_ROUND} rni rzi rmi rpi : "
              f"bf16 {_PLAIN} f16 f32 f64 | rn rz relu : f16x2 bf16x2 f32 | rna rn rz : tf32 f32 | "
              "rn satfinite relu : e4m3x2 e5m2x2 f32 f16x2"),
    # memory
    "ld": _LOAD,
    "ldu": replace(_LOAD, touches="constant"),
    "st": Op("address a", f"{_ORDER} {_SPACE} {_CACHE} v2 v4 v8 : {_MOVED}", touches="store",
             instead=_newer("async")),
    "atom": Op("d address a b", _ATOMIC, touches="atomic", instead=_newer("async")),
    "red": Op("address a b", _ATOMIC, touches="atomic", instead=_newer("async")),
    "fence.proxy": Op("", "proxy async alias generic async::generic generic::async tensormap"
                      f" tensormap::generic {_ORDER} shared::cta shared::cluster global"
                      " sync_restrict::shared::cta", None),
    "fence.mbarrier_init": Op("", "mbarrier_init release cluster", "init_fence(S, {active})"),
    "membar.proxy": Op("", "proxy async alias", None),
    "membar": Op("", "cta gl sys", "fence(S, {scope}, {active})", touches="fence",
                 instead=_newer("cluster")),
    "fence": Op("", "sc acq_rel acquire release cta cluster gpu sys", "fence(S, {scope}, {active})",
                touches="fence"),
    "prefetch": Op("address", "global local L1 L2 L2::evict_last L2::evict_normal"
                   " | tensormap param const", ""),
    "prefetchu": Op("address", "L1", ""),
    "discard": Op("address size", "global L2", ""),
    "applypriority": Op("address size", "global L2::evict_normal", ""),
    "cp": Op("to source size limit hint", _COPY),
    "cp.bulk": Op("to source size barrier mask hint", _BULK, touches="bulk", instead=_NO_GATHER),
    "cp.bulk.tensor": Op("to source barrier mask hint", _BULK, touches="bulk", instead=_NO_GATHER),
    **dict.fromkeys(("cp.bulk.prefetch", "cp.bulk.prefetch.tensor"),
                    Op("source", _BULK, "", instead=_NO_GATHER)),
    "cp.bulk.commit_group": Op("", _BULK, "commit_bulk(S, {active})"),
    "cp.bulk.wait_group": Op("count", _BULK),
    "cp.reduce.bulk": Op("to source size hint", _REDUCE, touches="bulk",
                         instead={**_NO_GATHER, "mbarrier::complete_tx::bytes": _NO_SUMS_THERE}),
    "cp.reduce.bulk.tensor": Op("to source hint", f"add min max inc dec and or xor {_SUMS} {_AXES}",
                                touches="bulk", instead=_NO_GATHER),
    "cp.commit_group": Op("", _COPY, "commit_group(S, {active})"),
    "cp.wait_all": Op("", _COPY, "wait_group(S, 0, True, {active})"),
    "cp.wait_group": Op("count", _COPY),
    "cp.mbarrier": Op("address", _COPY, touches="mbarrier", instead=_newer("shared::cluster")),
    "mbarrier": _PHASE,
    "mbarrier.pending_count": Op("d:i4 phase:i8", _MBARRIER, "pending_count({phase})",
                                 touches="mbarrier"),
    "mbarrier.test_wait": replace(_PHASE, args="d address phase", ends="poll"),
    "mbarrier.try_wait": replace(_PHASE, args="d address phase time", ends="poll"),
    # control: how these end a block `control` says
    "bra": Op("label", "uni", ends="jump"),
    "brx": Op("index table", "idx uni", ends="table"),
    "ret": Op("", "uni", ends="exit"),
    "exit": Op("", "", ends="exit"),
    "trap": Op("", "", ends="trap"),
    "call": Op("function", "uni", touches="call", ends="call"),
    "bar": _MET,
    "barrier": _MET,
    "bar.red": _VOTED,
    "barrier.red": _VOTED,
    # The arrival holds nobody up: it ends no block.
    "barrier.cluster.arrive": Op("", "cluster arrive release relaxed aligned",
                                 "cluster_arrive(S, {has[relaxed]}, {line}, {active})"),
    "barrier.cluster.wait": Op("", "cluster wait acquire aligned", ends="barrier"),
    "bar.warp": _WARP_MET,
    "barrier.warp": _WARP_MET,
    # Put in by `waits`, where lanes of a warp must not run ahead.
    "gate": Op("lanes", "", ends="gate"),
    # Put in by `unset`, where a register may have no value.
    "unset": Op("d a b c"),
    # Registers are not modelled.
    "setmaxnreg": Op("count", "inc dec sync aligned : u32", "", whole_warp=True),
    "nanosleep": Op("a", ": u32", ""),
    "createpolicy": Op("d:i8", "fractional range cvt L2 L2::evict_last L2::evict_normal"
                       " L2::evict_first L2::evict_unchanged global : b64",
                       "{i8[0]}"),  # caches are not modelled
    "pmevent": Op("a", "mask", ""),
    "griddepcontrol": Op("", "launch_dependents wait", ""),  # kernels run one after the other
    # warps and matrices
    "shfl": Op("d a b c member", "sync up down bfly idx : b32"),
    "vote": Op("d a member", "sync all any uni ballot : pred b32"),
    "match": Op("d a member", "sync any all : b32 b64"),
    "redux": Op("d a member:i4", "sync add min max : s32 u32 | sync and or xor : b32",
                "reduce_lanes(S, {operation!r}, {a}, {member}, {active}, {line})",
                instead={"f32": "redux of floats is not emulated; use shuffles"}),
    "elect": Op("d member", "sync"),
    "activemask": Op("d:i4", ": b32", "vote(S, 'ballot', {b1[1]}, None, {active}, 0)"),
    "ldmatrix": Op("d address", _LDMATRIX, touches="shared load", whole_warp=True),
    "stmatrix": Op("address a", _LDMATRIX, touches="shared store", whole_warp=True),
    "movmatrix": Op("d:i4 a:i4", "sync aligned m8n8 trans : b16",
                    "transpose_matrix(S, {a}, {active})", whole_warp=True),
    "mma": Op("d a b c", f"{_MATRIX} : f16 bf16 tf32 f32 f64 s8 u8 s32 e4m3 e5m2", whole_warp=True),
    "wmma.load": Op("d address stride", _WMMA, touches="load", whole_warp=True),
    "wmma.store": Op("address a stride", _WMMA, touches="store", whole_warp=True),
    "wmma.mma": Op("d a b c", _WMMA, whole_warp=True),
    # warpgroups
    "wgmma.mma_async": Op("d a b p", _WGMMA, warpgroup=True, keeps=True, instead=_NOT_DENSE),
    "wgmma.fence": Op("", "fence sync aligned", "wgmma_fence(S, {active})", warpgroup=True),
    "wgmma.commit_group": Op("", "commit_group sync aligned", "wgmma_commit(S, {active})",
                             warpgroup=True),
    "wgmma.wait_group": Op("count", "wait_group sync aligned", warpgroup=True),
    # tensor memory
    "tcgen05.alloc": Op("address count:i4", f"alloc {_TENSOR}", touches="shared store",
                        whole_warp=True, instead=_NO_TENSOR),
    "tcgen05.dealloc": Op("a:i4 count:i4", f"dealloc {_TENSOR}",
                          "tensor_dealloc(S, {a}, {count}, {has[cta_group::2]}, {line}, {active})",
                          whole_warp=True, instead=_NO_TENSOR),
    "tcgen05.relinquish_alloc_permit": Op("", f"relinquish_alloc_permit {_TENSOR}",
                                          "relinquish(S, {line}, {active})", whole_warp=True,
                                          instead=_NO_TENSOR),
    "tcgen05.mma": Op("address a b c p", f"mma ws ashift {_PAIR} {_TENSOR_KINDS} {_COLLECTOR}",
                      instead=_NO_TENSOR),
    "tcgen05.cp": Op("address a:i8", f"cp {_PAIR} 128x256b 4x256b 128x128b 64x128b 32x128b warpx4 "
                     "warpx2::02_13 warpx2::01_23 b8x16 b6x16_p32 b4x16_p64", instead=_NO_TENSOR),
    "tcgen05.shift": Op("address", f"shift {_PAIR} down", instead=_NO_TENSOR),
    "tcgen05.commit": Op("address mask", f"commit mbarrier::arrive::one multicast::cluster "
                         f"{_TENSOR}", touches="mbarrier", instead=_NO_TENSOR),
    "tcgen05.ld": Op("d address", f"ld {_TENSOR_SHAPE}", whole_warp=True, instead=_NO_TENSOR),
    "tcgen05.st": Op("address a", f"st {_TENSOR_SHAPE}", whole_warp=True, instead=_NO_TENSOR),
    "tcgen05.wait::ld": Op("", "wait::ld sync aligned", "tensor_wait(S, 'load', {active})",
                           whole_warp=True),
    "tcgen05.wait::st": Op("", "wait::st sync aligned", "tensor_wait(S, 'store', {active})",
                           whole_warp=True),
    **{f"tcgen05.fence::{side}_thread_sync": Op("", f"fence::{side}_thread_sync",
                                                f"tensor_fence(S, {side!r}, {{active}})")
       for side in ("before", "after")},
    # launch control
    "clusterlaunchcontrol.try_cancel": Op(
        "address barrier", "try_cancel async shared::cta mbarrier::complete_tx::bytes "
        "multicast::cluster::all : b128", touches="bulk"),
    "clusterlaunchcontrol.query_cancel": Op(
        "d a", "query_cancel is_canceled get_first_ctaid get_first_ctaid::x get_first_ctaid::y "
        "get_first_ctaid::z v4 : pred b32 b128"),
    # what is left out, and what to use instead
    **dict.fromkeys(("multimem", "tensormap"), Op(refused=NEWER)),
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"),
                    Op(refused=_TEXTURE)),
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), Op(refused=_STACK)),
    "brkpt": Op(refused="there is no debugger to stop in. Remove the breakpoint"),
}  # fmt: skip
"""Rows by opcode, or by opcode and the words that make it another one (`bar.warp`)."""

_NOBODY = Op(refused="it is not among the instructions that the emulator knows")


@lru_cache(maxsize=4096)
def key_of(parts: tuple[str, ...]) -> str:
    """The key of the row of an opcode, split at its dots: the one of most words, or ""."""
    fitting = (k for k in _keys(parts[0]) if set(k.split(".")[1:]) <= set(parts[1:]))
    return max(fitting, key=lambda k: k.count("."), default="")


@cache
def _keys(root: str) -> tuple[str, ...]:
    return tuple(k for k in OPS if k.split(".")[0] == root)


def row(parts: tuple[str, ...]) -> Op:
    """What an opcode, split at its dots, is; for an unknown one a row that refuses it."""
    return OPS.get(key_of(parts), _NOBODY)


def known(root: str) -> bool:
    """Whether an opcode's first word has a row that does not refuse it."""
    return any(not OPS[k].refused for k in _keys(root))


@cache
def _forms(words: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(form.split()) - {":"} for form in words.split("|"))


@lru_cache(maxsize=4096)
def unknown(parts: tuple[str, ...]) -> str:
    """Why an opcode, split at its dots, is not known with all its words; "" if it is."""
    op, root = row(parts), parts[0]
    if op.refused or root == "unset":
        return op.refused
    words = [w for w in parts[1:] if not (root in ("mma", "wmma", "wgmma") and _SHAPE.fullmatch(w))]
    forms = _forms(op.words)
    if any(form.issuperset(words) for form in forms):
        return ""
    every = frozenset[str]().union(*forms)
    strange = [w for w in words if w not in every]
    if not strange:
        nearest = max(forms, key=lambda form: sum(w in form for w in words))
        others = _listed(w for w in words if w not in nearest)
        beside = _listed(w for w in words if w in nearest)
        return (
            f"{root} with {others} beside {beside} is not among the forms that the emulator knows"
        )
    return (
        f"{_listed(strange)} is not known for {root}, and leaving it out may change the result. "
        f"Known: {_listed(sorted(every)) or 'none'}"
    )


def _listed(words: Iterable[str]) -> str:
    return " ".join(f".{w}" for w in words)
