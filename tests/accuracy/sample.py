"""Draw the seeded sample of candidate sites and write it to labels.json, unlabelled.

Run as `python -m tests.accuracy.sample` from the repository root, on Python 3.12 or later (before,
`ast` misplaces expressions inside f-strings). Truths that labels.json already holds are kept.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.accuracy.candidates import FAMILIES, Site, sites_of_package
from tests.accuracy.corpus import LABELS, corpus_roots

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = 20261121
SCRIPT_SHARE = 0.35
# Likely sites that join beyond the quotas, as arrays are rare in what was drawn of their kinds:
# how many a package, of which family, and which.
MORE: tuple[tuple[int, str, Callable[[Site], bool]], ...] = (
    (12, "truth", lambda site: site.hint == "direct"),
    (5, "truth", lambda site: site.element and site.hint == "assigned"),
    (1, "host-pull", lambda site: _likely(site) and site.kind in ("format", "print")),
    (1, "host-pull", lambda site: _likely(site) and site.kind in ("cast", "numpy")),
    (1, "host-pull", lambda site: _likely(site) and site.kind in ("round-trip", "shape", "range")),
    (2, "scalar", lambda site: _likely(site) and site.number and site.kind == "augmented"),
    (2, "scalar", lambda site: _likely(site) and site.number and site.kind == "binop"),
    (6, "scalar", lambda site: site.scaling and site.hint not in ("meta", "pulled")),
)

# Package: version, distribution, and how many sites of host-pull, truth and scalar.
PACKAGES: dict[str, tuple[str, str, tuple[int, int, int]]] = {
    "mlx-lm": ("0.32.2", "sdist", (48, 34, 48)),
    "mflux": ("0.24.0", "wheel", (13, 16, 13)),
    "mlx-lm-lora": ("5.10.2", "sdist", (13, 8, 12)),
    "mlx-snn": ("0.5.0", "sdist", (12, 18, 12)),
    "mlx-mfa": ("2.64.0", "sdist", (12, 27, 10)),
    "mlx-optimizers": ("0.4.1", "sdist", (8, 12, 13)),
    "mlx-graphs": ("0.0.10", "wheel", (10, 12, 9)),
    "mlx-whisper": ("0.4.3", "wheel", (10, 8, 8)),
    "mlx-embeddings": ("0.1.0", "wheel", (9, 6, 8)),
    "parakeet-mlx": ("0.7.0", "wheel", (9, 6, 9)),
    "mlx-sparse": ("0.0.6b0", "sdist", (8, 6, 6)),
    "mlx-image": ("0.1.10", "wheel", (6, 4, 6)),
    "mlx-tune": ("0.6.0", "sdist", (6, 16, 6)),
    "vllm-mlx": ("0.6.0", "sdist", (8, 12, 6)),
    "mlx-kan": ("0.2.5", "wheel", (5, 5, 6)),
}

HINT_SHARES: dict[str, dict[str, float]] = {
    "host-pull": {
        "direct": 0.20,
        "assigned": 0.30,
        "passed": 0.08,
        "reduced": 0.06,
        "pulled": 0.10,
        "none": 0.18,
        "meta": 0.08,
    },
    "truth": {
        "direct": 0.62,
        "assigned": 0.20,
        "passed": 0.06,
        "reduced": 0.10,
        "pulled": 0.06,
        "none": 0.06,
        "meta": 0.06,
    },
    "scalar": {
        "direct": 0.24,
        "assigned": 0.34,
        "passed": 0.10,
        "reduced": 0.02,
        "pulled": 0.05,
        "none": 0.15,
        "meta": 0.10,
    },
}

# The kinds whose result is a plain Python value, whatever they were given.
PULLS = frozenset({"item", "tolist", "cast"})

# Kinds not named here weigh 1.
KIND_WEIGHTS = {
    "item": 4.0,
    "cast": 4.0,
    "numpy": 4.0,
    "tolist": 3.0,
    "round-trip": 2.0,
    "format": 2.0,
    "print": 1.5,
    "shape": 1.5,
    "if": 4.0,
    "assert": 4.0,
    "not": 2.0,
    "builtin": 2.0,
    "ternary": 1.5,
    "while": 1.5,
    "binop": 6.0,
    "augmented": 2.0,
    "call": 2.0,
    "compare": 2.0,
}


def line_hash(line: str) -> str:
    """Return the short hash of a stripped source line that ties a label to its code."""
    return hashlib.blake2b(line.strip().encode(), digest_size=8).hexdigest()


def _likely(site: Site) -> bool:
    return site.hint in ("direct", "assigned")


class Sources:
    """The lines of the corpus, read once."""

    def __init__(self, roots: dict[str, Path]) -> None:
        self.roots = roots
        self._lines: dict[tuple[str, str], list[str]] = {}

    def line(self, site: Site) -> str:
        """Return the source line that `site` starts on."""
        return self.lines(site.package, site.file)[site.line - 1]

    def lines(self, package: str, file: str) -> list[str]:
        """Return a file's lines."""
        key = (package, file)
        if key not in self._lines:
            text = (self.roots[package] / file).read_text(encoding="utf-8-sig")
            self._lines[key] = text.splitlines()
        return self._lines[key]

    def text(self, site: Site) -> str:
        """Return what `site` spans, a multi-line one up to its first line's end."""
        end = site.end_column - 1 if site.end_line == site.line else None
        return self.line(site)[site.column - 1 : end]


class Drawing:
    """Draw one package's sites of one family, spread over hints, kinds, files and scripts."""

    def __init__(self, pool: list[Site], sources: Sources, rng: random.Random) -> None:
        self.pool = list(pool)
        rng.shuffle(self.pool)
        self.sources = sources
        self.taken: list[Site] = []
        self.kinds: Counter[str] = Counter()
        self.files: Counter[str] = Counter()
        self.texts: set[str] = set()

    def take(self, count: int, hint: str | None) -> None:
        """Take up to `count` sites of `hint`, of any hint when it is None."""
        for _ in range(count):
            free = [s for s in self.pool if hint in (None, s.hint) and self._fresh(s)]
            if not free:
                return
            scripts = sum(site.script for site in self.taken)
            wanted = scripts < SCRIPT_SHARE * (len(self.taken) + 1)
            preferred = [site for site in free if site.script == wanted] or free
            # min is stable, so ties fall to the shuffled order.
            self._keep(min(preferred, key=self._crowding))

    def take_more(self, count: int, likely: Callable[[Site], bool]) -> None:
        """Take up to `count` further `likely` sites, even where their text is taken already."""
        for site in [site for site in self.pool if likely(site)][:count]:
            self._keep(site)

    def _fresh(self, site: Site) -> bool:
        return self.sources.text(site) not in self.texts

    def _crowding(self, site: Site) -> tuple[float, int]:
        weight = KIND_WEIGHTS.get(site.kind, 1.0)
        return (self.kinds[site.kind] / weight, self.files[site.file])

    def _keep(self, site: Site) -> None:
        self.taken.append(site)
        self.pool.remove(site)
        self.kinds[site.kind] += 1
        self.files[site.file] += 1
        self.texts.add(self.sources.text(site))


def draw(sites: Iterable[Site], sources: Sources, quotas: dict[str, int], seed: str) -> list[Site]:
    """Draw `quotas` sites per family from one package's candidates."""
    pool = list(sites)
    drawn: list[Site] = []
    for family in FAMILIES:
        rng = random.Random(f"{seed}/{family}")
        drawing = Drawing([s for s in pool if s.family == family], sources, rng)
        quota = quotas[family]
        for hint, share in HINT_SHARES[family].items():
            room = quota - len(drawing.taken)
            drawing.take(min(room, max(1, round(share * quota))), hint)
        for hint in ("assigned", "reduced", None):
            drawing.take((quota - len(drawing.taken)) // (1 if hint is None else 2), hint)
        for count, of, likely in MORE:
            if of == family:
                drawing.take_more(count, likely)
        drawn += drawing.taken
    return sorted(drawn, key=lambda s: (FAMILIES.index(s.family), s.file, s.span))


def overlapping(site: Site, others: Iterable[Site]) -> list[list[int]]:
    """Return the distinct spans of other candidates that share source with `site`.

    Its own span is among them where a truth test consists of one pull, as in `if x.item():`.
    """
    start, end = (site.line, site.column), (site.end_line, site.end_column)
    spans = {
        other.span
        for other in others
        if (other.line, other.column) < end and start < (other.end_line, other.end_column)
        if other.span != site.span or (site.family == "truth" and other.kind in PULLS)
    }
    return [list(span) for span in sorted(spans)]


def record(site: Site, line: str, rivals: list[list[int]], truth: object) -> dict[str, object]:
    """Return the label record of `site`."""
    return {
        "package": site.package,
        "file": site.file,
        "line": site.line,
        "column": site.column,
        "end_line": site.end_line,
        "end_column": site.end_column,
        "family": site.family,
        "kind": site.kind,
        "script": site.script,
        "truth": truth,
        "line_hash": line_hash(line),
        "rivals": rivals,
    }


def write_labels(labels: dict[str, object], path: Path = LABELS) -> None:
    """Write labels with one site a line."""
    head = {key: value for key, value in labels.items() if key != "sites"}
    sites = labels["sites"]
    assert isinstance(sites, list)
    lines = ",\n".join("  " + json.dumps(site) for site in sites)
    body = json.dumps(head, indent=1)[:-2]
    path.write_text(f'{body},\n "sites": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def sample() -> dict[str, object]:
    """Draw the whole sample, keeping the truths already given."""
    pins = {name: {"version": v, "dist": d} for name, (v, d, _) in PACKAGES.items()}
    known = _known_truths()
    sources = Sources(corpus_roots(pins))
    records = []
    for name, (_, _, counts) in PACKAGES.items():
        sites = sites_of_package(name, sources.roots[name])
        by_file: dict[str, list[Site]] = {}
        for site in sites:
            by_file.setdefault(site.file, []).append(site)
        quotas = dict(zip(FAMILIES, counts, strict=True))
        for site in draw(sites, sources, quotas, f"{SEED}/{name}"):
            rivals = overlapping(site, by_file[site.file])
            truth = known.get((name, site.file, site.span, site.family))
            records.append(record(site, sources.line(site), rivals, truth))
    return {"seed": SEED, "packages": pins, "sites": records}


def _known_truths() -> dict[tuple[str, str, tuple[int, ...], str], object]:
    if not LABELS.exists():
        return {}
    known = {}
    for site in json.loads(LABELS.read_text(encoding="utf-8"))["sites"]:
        span = (site["line"], site["column"], site["end_line"], site["end_column"])
        known[site["package"], site["file"], span, site["family"]] = site["truth"]
    return known


if __name__ == "__main__":
    if sys.version_info < (3, 12):
        sys.exit("drawing the sample needs Python 3.12 or later, for exact places in f-strings")
    write_labels(sample())
