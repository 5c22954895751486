#!/usr/bin/env python3
"""Ask the hub whether models.toml still holds: a maintainer's command, `make registry`.

    tests/registry/check.py [MODELS.TOML]

Every entry is asked for without a token, as most people have none: is the repository there, under this name, open to
everybody; has it exactly one model of this quant or this file, how big is it; is the licence the one that is written
down. One line for each entry, and below it what has changed. The hub is HF_ENDPOINT or https://huggingface.co.

Exit code: 0 all holds, 1 something has changed, 2 the hub or the file could not be read.
"""

import json
import os
import re
import sys
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ENDPOINT = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
TIMEOUT = 30  # seconds
PAGES = 50  # of a list of files, at most

# The same rules as in src/model/quant.rs.
SIDECAR = re.compile(r"mmproj|imatrix|-lora|-vocab|^(mtp|eagle3|dflash|dspark)-", re.IGNORECASE)
SHARD = re.compile(r"^(.+)-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


class Unreachable(Exception):
    """The hub did not answer as a hub does."""


def get(url):
    """A JSON answer and the address of the next page; (None, None) where there is nothing for everybody."""
    request = urllib.request.Request(url, headers={"User-Agent": "infer-registry-check"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            link = re.search(r'<([^>]+)>;\s*rel="next"', answer.headers.get("Link") or "")
            return json.load(answer), link and urllib.parse.urljoin(url, link[1])
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404):
            return None, None
        raise Unreachable(f"{url}: {error}") from error
    except (OSError, ValueError) as error:
        raise Unreachable(f"{url}: {error}") from error


def files_of(repo, revision):
    """Every file of a repository: path -> (size, sha256)."""
    files = {}
    url = f"{ENDPOINT}/api/models/{repo}/tree/{urllib.parse.quote(revision, safe='')}?recursive=true"
    for _ in range(PAGES):
        entries, url = get(url)
        for entry in entries or []:
            if entry["type"] == "file":
                lfs = entry.get("lfs") or {}
                files[entry["path"]] = (lfs.get("size", entry["size"]), lfs.get("oid"))
        if not url:
            break
    return files


def models_among(files):
    """The files that are models, parts of one together: (name without ending, number of parts) -> paths."""
    models = {}
    for path in sorted(files):
        if path.lower().endswith(".gguf") and not SIDECAR.search(path.rsplit("/", 1)[-1]):
            shard = SHARD.match(path)
            key = (shard[1], int(shard[3])) if shard else (path[: -len(".gguf")], 1)
            models.setdefault(key, []).append(path)
    return models


def has_quant(stem, quant):
    """Whether a name has the quant as a token of its own, neither `UD-` before it nor more of a quant behind it."""
    token = rf"(?<![^-_./])(?<!UD-){re.escape(quant)}(?![^-_./])(?!_(XXS|XS|S|M|L|XL|XXL|NL|MOE|P|KS|KT|K|\d)(?![^-_./]))"
    found = re.search(token, stem.rsplit("/", 1)[-1], re.IGNORECASE)
    return bool(found or re.search(token, stem, re.IGNORECASE))


def wanted_files(entry, files):
    """The paths that an entry means, or what is wrong with it."""
    models = models_among(files)
    if "file" in entry:
        found = {key: paths for key, paths in models.items() if entry["file"] in paths}
        wanted = f"file `{entry['file']}`"
    else:
        found = {key: paths for key, paths in models.items() if has_quant(key[0], entry["quant"])}
        wanted = f"`{entry['quant']}`"
    if not found:
        there = ", ".join(sorted(stem.rsplit("/", 1)[-1] for stem, _ in models)) or "no GGUF files"
        return [], f"no {wanted}; there is: {there}"
    if len(found) > 1:
        return [], f"{wanted} is {len(found)} models: {', '.join(paths[0] for paths in found.values())}"
    ((_, count), paths), = found.items()
    return paths, None if len(paths) == count else f"{wanted} has {len(paths)} of {count} parts"


def licenses(info):
    """Every name that the hub has for the licence."""
    card = info.get("cardData") or {}
    tags = [tag.removeprefix("license:") for tag in info.get("tags") or [] if tag.startswith("license:")]
    named = [card.get("license"), card.get("license_name"), *tags]
    flat = [name for names in named for name in (names if isinstance(names, list) else [names])]
    return list(dict.fromkeys(name for name in flat if name))


def check(entry):
    """A short description of what is there, and the list of what has changed."""
    repo, revision = entry["repo"], entry.get("revision")
    at = f"/revision/{urllib.parse.quote(revision, safe='')}" if revision else ""
    info, _ = get(f"{ENDPOINT}/api/models/{repo}{at}")
    if info is None:
        return "", ["the repository or its revision does not exist, or is private"]
    changed = []
    if info.get("id") != repo:
        changed.append(f"the repository is called `{info.get('id')}` now")
    changed += [f"it is {word}: {info[word]}" for word in ("gated", "disabled", "private") if info.get(word)]
    names = licenses(info)
    if names and entry.get("license", "").lower() not in [name.lower() for name in names]:
        changed.append(f"the licence is {' or '.join(names)}, not {entry.get('license')}")
    files = files_of(repo, revision or info.get("sha") or "main")
    paths, wrong = wanted_files(entry, files)
    if wrong:
        changed.append(wrong)
    if "sha256" in entry and paths and files[paths[0]][1] != entry["sha256"]:
        changed.append(f"the sha256 is {files[paths[0]][1]}")
    size = sum(files[path][0] for path in paths)
    there = f"{size / 1e9:.2f} GB  {paths[0]}" if paths else ""
    return there + ("" if names else "  (the hub names no licence)"), changed


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "models.toml"
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    bad = 0
    for alias, entry in sorted(entries.items()):
        if "same_as" in entry:
            continue
        there, changed = check(entry)
        print(f"{'CHANGED' if changed else 'ok':8}{alias:20}{there}", flush=True)
        for line in changed:
            print(f"{'':8}{entry['repo']}: {line}")
        bad += bool(changed)
    print(f"{bad} entries have changed" if bad else "all of it holds")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unreachable, OSError, tomllib.TOMLDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
