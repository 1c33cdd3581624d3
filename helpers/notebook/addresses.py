"""Where the book lives: the address in _config.yml, and the addresses that follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from helpers.ladder.kernel import ROOT
from nogpu.disk import replace_file
from nogpu.errors import ConfigError


@dataclass(frozen=True)
class Repository:
    """The address in _config.yml and the addresses that follow from it."""

    url: str
    branch: str

    @property
    def owner(self) -> str:
        """The account on GitHub."""
        return self.url.split("/")[-2]

    @property
    def name(self) -> str:
        """The repository's name, which is also the folder that `git clone` makes."""
        return self.url.split("/")[-1]

    @property
    def pages(self) -> str:
        """Where the project's own workflow publishes the rendered book."""
        host = f"{self.owner.lower()}.github.io"
        return f"https://{host}" if self.name.lower() == host else f"https://{host}/{self.name}"

    def colab(self, stem: str) -> str:
        """Address that opens the notebook of one chapter on Colab."""
        return self.opened(f"book/{stem}.ipynb")

    def opened(self, path: str) -> str:
        """Address that opens a notebook of the repository on Colab, by its path there."""
        where = quote(f"{self.owner}/{self.name}/blob/{self.branch}/{path.lstrip('/')}")
        return f"https://colab.research.google.com/github/{where}"

    def in_place_of(self, other: Repository, text: str) -> str:
        """A text whose links lead to another repository, led to this one."""
        text = text.replace(other.pages, self.pages)
        return text.replace(f"{other.owner}/{other.name}", f"{self.owner}/{self.name}")


def checked_address(url: str) -> str:
    """The address without a trailing slash or ".git".

    Raises ConfigError if Colab cannot open it.
    """
    short = url.strip().rstrip("/").removesuffix(".git")
    if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", short):
        raise ConfigError(
            f"{url!r} is not the address of a repository on GitHub, and Colab opens notebooks from "
            "there only. Give an address of the form https://github.com/OWNER/NAME."
        )
    return short


def repository(root: Path = ROOT) -> Repository:
    """The repository as _config.yml names it. Raises ConfigError if it names none."""
    import yaml

    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    try:
        section = config["repository"]
        return Repository(checked_address(section["url"]), section["branch"])
    except (KeyError, TypeError):
        raise ConfigError(
            "_config.yml has no `repository` with a `url` and a `branch`. The launch buttons and "
            "the notebooks need both: add them."
        ) from None


def set_repository(url: str, root: Path = ROOT) -> None:
    """Write another address into _config.yml, from which others follow, and into CITATION.cff."""
    address = checked_address(url)
    path = root / "_config.yml"
    text = path.read_text(encoding="utf-8")
    new, count = re.subn(
        r"(?m)^(repository:\s*\n(?:[ #].*\n)*?\s+url:[ \t]*)\S+", rf"\g<1>{address}", text
    )
    if count != 1:
        raise ConfigError("_config.yml has no `url` under `repository`: add one.")
    replace_file(path, new)
    cited = root / "CITATION.cff"
    if cited.is_file():
        text = cited.read_text(encoding="utf-8")
        replace_file(cited, re.sub(r"(?m)^(repository-code:\s*)\S+", rf'\g<1>"{address}"', text))
