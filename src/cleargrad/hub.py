"""torch.hub: weights fetched once from the internet and kept, and models defined by a folder's hubconf.py.

Read next: utils/model_zoo.py.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from typing import Any, NoReturn
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from cleargrad.errors import error
from cleargrad.serialization import load as load_file
from cleargrad.serialization.atomic import replacing

try:
    from tqdm import tqdm
except ImportError:

    class tqdm:  # type: ignore[no-redef]
        """A progress bar that shows nothing, where the package tqdm is not installed."""

        def __init__(self, *args: Any, **kwargs: Any):
            pass

        def update(self, n: int = 1) -> None:
            pass

        def close(self) -> None:
            pass

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *failure: Any) -> None:
            pass


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
CHUNK = 1 << 17
_folder: str | None = None


def _get_torch_home() -> str:
    """Where PyTorch keeps files: $TORCH_HOME, by default ~/.cache/torch."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Where downloads are kept: $TORCH_HOME/hub, by default ~/.cache/torch/hub."""
    return os.path.join(_get_torch_home(), "hub") if _folder is None else _folder


def set_dir(d: str | os.PathLike) -> None:
    """Another folder for downloads."""
    global _folder
    _folder = os.path.expanduser(os.fspath(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetches a file; it appears whole or not at all, and only if its SHA-256 begins with the prefix."""
    digest = hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source, replacing(dst) as target:
        total = int(source.headers.get("Content-Length") or 0)
        done = 0
        while chunk := source.read(CHUNK):
            target.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress and total:
                print(f"\r{100 * done / total:3.0f}% of {total / 2**20:.1f} MB", end="", file=sys.stderr)
        if progress and total:
            print(file=sys.stderr)
        found = digest.hexdigest()
        if hash_prefix and not found.startswith(hash_prefix):
            rule = f'invalid hash value (expected "{hash_prefix}", got "{found[: len(hash_prefix)]}")'
            raise error(RuntimeError, "download_url_to_file", rule, url=url)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """What a file on the internet holds; a file that was fetched before is not fetched again."""
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        named = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, named[1] if named else None, progress=progress)
    return load_file(path, map_location, weights_only=weights_only)


# Models from a folder --------------------------------------------------------------------------------------


def entries(folder: str) -> Any:
    """The module that a folder's hubconf.py is."""
    path = os.path.join(os.path.expanduser(folder), "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise error(FileNotFoundError, "torch.hub", "there is no hubconf.py in the folder", folder=folder)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.expanduser(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.path.expanduser(folder))
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise error(RuntimeError, "torch.hub", f"Missing dependencies: {', '.join(missing)}")
    return module


def folder_of(name: str, repo: str, source: str) -> str:
    if source not in ("github", "local"):
        rule = f'Unknown source: "{source}". Allowed values: "github" | "local".'
        raise error(ValueError, name, rule)
    if source == "github":
        refuse(name, repo)
    return repo


def refuse(name: str, repo: str) -> NoReturn:
    rule = "cleargrad does not download and run code from the internet"
    fix = f"clone {repo} yourself, and pass its folder with source='local'"
    raise error(NotImplementedError, name, rule, fix=fix)


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a function of a folder's hubconf.py."""
    module = entries(folder_of("torch.hub.load", repo_or_dir, source.lower()))
    function = getattr(module, model, None)
    if not callable(function):
        raise error(RuntimeError, "torch.hub.load", f"Cannot find callable {model} in hubconf")
    return function(*args, **kwargs)


def list(github: str, *args: Any, **kwargs: Any) -> NoReturn:
    """The functions of a repository on GitHub; refused, since that would run its code."""
    refuse("torch.hub.list", github)


def help(github: str, model: str, *args: Any, **kwargs: Any) -> NoReturn:
    """The docstring of such a function; refused likewise."""
    refuse("torch.hub.help", github)
