"""Workers elsewhere: an executor on those of a Dask scheduler, by its address.

Nothing is scheduled here.

    dask scheduler                            # on one machine
    dask worker tcp://host:8786 --nthreads 1 --nworkers 4    # on each of the others
    python -m helpers grade 2 DOWNLOAD --course COURSE --out RESULTS --dask tcp://host:8786

The scheduler and its workers need the book in the same state (`pip install -e '.[grade,cluster]'`),
and share no files with who asks. What travels is `judging.Task`: a student's source, without a
name, and the cases that it is tried on; not the course's secret. tcp:// is not encrypted, and
whoever reaches a scheduler can run what they like on its workers: keep it in a network of your own,
or use tls:// with the certificates of Dask's configuration.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from nogpu.errors import ConfigError

PATIENCE = 20.0
"""Seconds in which a scheduler must answer, and have a worker."""


@contextmanager
def dask(address: str) -> Iterator[Executor]:
    """An executor of concurrent.futures on the workers of the scheduler at an address, while this
    lasts.

    A task whose worker dies is given to another one, as often as the scheduler's `allowed-failures`
    says (3). Raises ConfigError where Dask is not installed, nothing answers, there is no worker,
    the scheduler cannot read what it is sent, or a task took too many workers with it. Source:
    distributed's documentation, Client.get_executor.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise ConfigError(
            "--dask needs Dask, which is not installed here: pip install -e '.[cluster]'"
        ) from None
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise ConfigError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}): give its address, "
            "such as tcp://host:8786, which it prints when it starts"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise ConfigError(
                f"the scheduler at {address} has no worker: start one by dask worker {address} "
                "--nthreads 1"
            ) from None
        try:
            yield client.get_executor(pure=False)
        except KilledWorker:
            raise ConfigError(
                "workers of the Dask cluster died again and again over one submission: what is "
                "judged stays judged; look into the workers' logs, and run grade again"
            ) from None
        except RuntimeError as error:
            if "deserialization" not in str(error):
                raise
            raise ConfigError(
                f"the scheduler at {address} cannot read what it is sent: install this book "
                "there, in the same state as here"
            ) from None
