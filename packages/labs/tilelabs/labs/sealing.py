"""What a lab is rehearsed on, sealed in one file: nobody meets a solution who did not ask for it.

labs/NAME/rehearsal/solutions.pack holds texts by name, compressed and enciphered, so that neither a
look into the folder nor a search finds one. It keeps no secret: tests of a public book have to open
it, so `PASSPHRASE` stands here, and who reads this can open it as well. A file of one's own that
`PASSPHRASE_FILE` names holds another passphrase, which only its owner knows: what is sealed then
opens by it alone. Plain files beside the pack, as an author has them, go before those in it.
"""

import hashlib
import hmac
import json
import os
import secrets
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from nogpu.disk import replace_file
from nogpu.errors import ConfigError, DataError
from nogpu.text import read_source

PACK = "solutions.pack"
PASSPHRASE = b"Tile by Tile: for teachers and for tests"
PASSPHRASE_FILE = "TILE_SOLUTIONS"
"""Variable of the environment: the path of a file with a passphrase in place of `PASSPHRASE`."""
SALT, TAG = 16, 32


def texts(folder: Path) -> dict[str, str]:
    """Texts by name of a folder: those in its pack, and before them what lies there in plain.

    Empty where there is neither, as in what a student's notebook fetches. Raises DataError for a
    pack that is damaged or sealed with another passphrase, ConfigError for a passphrase that cannot
    be read.
    """
    pack, files = folder / PACK, {}
    if pack.is_file():
        data = _opened(pack.read_bytes(), passphrase()) or _opened(pack.read_bytes(), PASSPHRASE)
        if data is None:
            raise DataError(
                f"{pack} does not open: it is damaged, or sealed with another passphrase than the "
                f"book's and that of the file which {PASSPHRASE_FILE} names"
            )
        files = json.loads(data)
    return files | {path.name: read_source(path) for path in plain(folder)}


def plain(folder: Path) -> list[Path]:
    """Files of a folder that are not sealed."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if path.suffix in (".cu", ".toml"))


def seal(files: Mapping[str, str], folder: Path) -> Path:
    """Write these texts as a folder's pack, which stays to the byte where it holds them already."""
    pack, data = folder / PACK, json.dumps(files, sort_keys=True).encode()
    words = passphrase()
    if not (pack.is_file() and _opened(pack.read_bytes(), words) == data):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(pack, _sealed(data, words))
    return pack


def passphrase() -> bytes:
    """The book's, or that of the file which the environment names.

    Raises ConfigError for a file that cannot be read, or is empty.
    """
    path = os.environ.get(PASSPHRASE_FILE)
    if not path:
        return PASSPHRASE
    try:
        words = Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{PASSPHRASE_FILE}={path}: {error.strerror}") from None
    if not words:
        raise ConfigError(f"{PASSPHRASE_FILE}={path} is empty: write a passphrase into it")
    return words


def _sealed(data: bytes, words: bytes) -> bytes:
    """Salt, enciphered data, and a tag over both: SHAKE-256 as a stream cipher, whose key and that
    of HMAC-SHA-256 are drawn by scrypt, anew for each salt.
    """
    salt = secrets.token_bytes(SALT)
    key, tag_key = _keys(words, salt)
    body = salt + _xor(zlib.compress(data, 9), key)
    return body + hmac.digest(tag_key, body, "sha256")


@cache
def _opened(sealed: bytes, words: bytes) -> bytes | None:
    """What was sealed; None where the tag does not fit."""
    key, tag_key = _keys(words, sealed[:SALT])
    body, tag = sealed[:-TAG], sealed[-TAG:]
    if not hmac.compare_digest(hmac.digest(tag_key, body, "sha256"), tag):
        return None
    return zlib.decompress(_xor(body[SALT:], key))


def _keys(words: bytes, salt: bytes) -> tuple[bytes, bytes]:
    both = hashlib.scrypt(words, salt=salt, n=2**14, r=8, p=1, dklen=64)
    return both[:32], both[32:]


def _xor(data: bytes, key: bytes) -> bytes:
    stream = hashlib.shake_256(key).digest(len(data))
    return bytes(a ^ b for a, b in zip(data, stream, strict=True))
