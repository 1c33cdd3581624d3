"""A reader's kernel, the book's and cuBLAS, timed in turn on the same operands on this machine's
GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.ladder.kernel import Geometry
from helpers.record import protocol
from helpers.record.protocol import Spread
from helpers.record.sources import _session
from helpers.record.store import Size
from helpers.record.trials import enter, of_plan, yardstick
from nogpu import device

YOURS, BOOKS, LIBRARY = "yours", "book", "baseline"


@dataclass(frozen=True)
class Turns:
    """What came of it. ms: a launch of each, by contender; rates: GFLOP/s (Gop/s for integers).

    over_book: time of the book's kernel over time of yours, round by round: above 1, yours is the
    faster. over_library: the same of cuBLAS; None where it has no such product. names: what the
    contenders are called. Clocks may change from round to round; ratios within a round do not see
    it.
    """

    gpu: str
    size: Size
    names: Mapping[str, str]
    ms: Mapping[str, Spread]
    rates: Mapping[str, float]
    over_book: Spread
    over_library: Spread | None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each contender, as `plots.bars` takes them."""
        m, n, k = self.size
        source = f"measured here, {self.gpu}"
        return [
            {
                "kernel": self.names[who], "m": m, "n": n, "k": k, **protocol.fields(ms),
                "gflops": self.rates[who], "origin": "measured", "source": source,
            }
            for who, ms in self.ms.items()
        ]  # fmt: skip


def in_turn(own: Geometry, book: Geometry) -> Turns:
    """Time a kernel of a reader's own text beside the book's, both as planned for one shape.

    Raises ImplausibleError if a result is wrong or a rate above the hardware's peak, ConfigError if
    this GPU cannot launch one of them, GpuFaultError if the GPU will not answer this process again,
    NoGPUError.
    """
    session = _session()
    size = own.M, own.N, own.K
    what = "{} at {}x{}x{}".format(own.kernel.name, *size)
    with device.faults(what):
        contenders = {
            YOURS: of_plan(own, what, cold=True),
            BOOKS: of_plan(book, "{} at {}x{}x{}".format(book.kernel.name, *size)),
            **yardstick(session, book, what),
        }
        done = enter(session, size, contenders).trial(tuple(contenders), protocol.LIVE)
    names = {YOURS: own.kernel.name, BOOKS: book.kernel.name, LIBRARY: book.kernel.baseline}
    ratio = done.ratio(YOURS, BOOKS)
    assert ratio is not None
    return Turns(
        session.gpu.name, size, names, done.ms, done.rates, ratio, done.ratio(YOURS, LIBRARY)
    )
