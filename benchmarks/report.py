"""Turns samples into tables, goals and a JSON file. Figures are medians; a ratio above 1 is faster than the peer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measure import Sample, cores, median_of

RESULTS = Path(__file__).resolve().parent / "results"

BUSY_SHARE = 0.1
"""Above this share of all cores' time used by other programs, a result comes with a warning."""


@dataclass(frozen=True)
class Result:
    """All runs of one contestant."""

    key: str
    label: str
    is_tipple: bool
    one_table: bool
    samples: list[Sample]

    @property
    def seconds(self) -> float:
        return median_of(self.samples, lambda sample: sample.seconds) or 0.0

    def record(self, megabytes: float) -> dict[str, Any]:
        """For the JSON file."""
        return {
            "key": self.key,
            "label": self.label,
            "one_table": self.one_table,
            "median_seconds": round(self.seconds, 3),
            "text_mb_per_second": round(megabytes / self.seconds, 1),
            "samples": [_rounded(asdict(sample)) for sample in self.samples],
        }


@dataclass(frozen=True)
class Goal:
    """One of the goals, and what was reached; `met` is None where it is no goal but worth knowing."""

    text: str
    reached: str
    met: bool | None

    def __str__(self) -> str:
        verdict = {True: "met", False: "NOT MET", None: "for comparison"}[self.met]
        return f"{verdict:>14}  {self.text}: {self.reached}"


def best_peer(results: Sequence[Result], *, one_table: bool = True) -> Result | None:
    """The fastest peer; only those that leave what Tipple leaves, one table, unless told otherwise."""
    # Files that were turned into COPY binary before are no peer of what reads text; `direct_goals` looks at them too.
    peers = [r for r in results if not r.is_tipple and r.one_table == one_table and not r.key.startswith("copy-binary")]
    return min(peers, key=lambda result: result.seconds, default=None)


def result_table(title: str, results: Sequence[Result], megabytes: float) -> str:
    """One line per contestant."""
    best = best_peer(results)
    header = ["", "seconds", "min-max", "MB/s", "x best peer", "client CPU", "server CPU", "load phase"]
    lines = []
    for result in results:
        seconds = [sample.seconds for sample in result.samples]
        lines.append(
            [
                result.label,
                f"{result.seconds:.2f}",
                f"{min(seconds):.2f}-{max(seconds):.2f}",
                f"{megabytes / result.seconds:.0f}",
                f"{best.seconds / result.seconds:.2f}" if best else "-",
                _number(median_of(result.samples, lambda sample: sample.client_cpu)),
                _number(median_of(result.samples, lambda sample: sample.server_cpu)),
                _number(median_of(result.samples, lambda sample: sample.phases.get("load"))),
            ]
        )
    rounds = max(len(result.samples) for result in results)
    plural = "s" if rounds > 1 else ""
    text = f"{title}: medians of {rounds} round{plural}, {megabytes:.0f} MB of input\n"
    text += table(header, lines)
    if best:
        text += f"\nbest peer: {best.label}"
    others = [sample.other_cpu / (sample.seconds * cores()) for r in results for sample in r.samples]
    if max(others) > BUSY_SHARE:
        text += f"\nWARNING: up to {max(others):.0%} of this machine's CPU went to other programs during a run"
    return text


def speed_goals(results: Sequence[Result], engine: str, subject: str, factor: float, peers: str) -> list[Goal]:
    """Tipple's defaults against the best peer; and against peers that leave the rows in several tables."""
    ours = next((result for result in results if result.key == subject), None)
    goals = []
    for one_table in (True, False):
        peer = best_peer(results, one_table=one_table)
        if ours and peer:
            ratio = peer.seconds / ours.seconds
            into = "" if one_table else ", where the rows may end in several tables"
            text = f"{engine}: at least {factor} x {peers}{into}"
            goals.append(Goal(text, f"{ratio:.2f} x {peer.label}", ratio >= factor if one_table else None))
    return goals


def direct_goals(results: Sequence[Result], subject: str, freeze: str, megabytes: float, wal_level: str) -> list[Goal]:
    """Ready-made pages: against one session of COPY FREEZE, against any COPY of several, and as a speed."""
    found = {result.key: result for result in results}
    ours = found.get(subject)
    if ours is None:
        return []
    peer = min((r for r in results if not r.is_tipple), key=lambda result: result.seconds, default=None)
    if wal_level != "minimal":
        return ratio_goal(results, f"direct, wal_level={wal_level}: at least", subject, peer, at_least=3)
    speed = megabytes / ours.seconds
    return [
        *ratio_goal(results, "direct: at least", subject, found.get(freeze), at_least=8),
        *ratio_goal(results, "direct: at least", subject, peer, at_least=3.5),
        Goal("direct: 1,000 MB/s of text, and no less than 556", f"{speed:.0f} MB/s", speed >= 1000),
    ]


def ratio_goal(
    results: Sequence[Result], text: str, subject: str, peer: Result | None, *, at_least: float
) -> list[Goal]:
    """How many times faster the subject is than one peer; nothing where one of them did not run."""
    ours = next((result for result in results if result.key == subject), None)
    if ours is None or peer is None:
        return []
    ratio = peer.seconds / ours.seconds
    return [Goal(f"{text} {at_least} x {peer.label}", f"{ratio:.2f} x", ratio >= at_least)]


def cost_goal(results: Sequence[Result], text: str, subject: str, base: str, *, at_most: float) -> list[Goal]:
    """How many times longer the subject takes than the base; nothing where one of them did not run."""
    found = {result.key: result for result in results}
    if subject not in found or base not in found:
        return []
    ratio = found[subject].seconds / found[base].seconds
    reached = f"{ratio:.3f} x {found[base].label}"
    return [Goal(f"{text}: at most {at_most} x", reached, ratio <= at_most)]


def cpu_goal(results: Sequence[Result], engine: str, subject: str, share: float) -> list[Goal]:
    """The client's CPU as a share of the server's."""
    for result in results:
        if result.key == subject:
            found = median_of(result.samples, lambda s: s.client_cpu / s.server_cpu if s.server_cpu else None)
            if found is not None:
                text = f"{engine}: client CPU at most {share} of server CPU"
                return [Goal(text, f"{found:.3f}", found <= share)]
    return []


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Aligned text: the first column to the left, all others to the right."""
    widths = [max(len(line[i]) for line in (header, *lines)) for i in range(len(header))]

    def row(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *rest]).rstrip()

    return "\n".join([row(header), row(["-" * width for width in widths]), *map(row, lines)])


def write_result(name: str, content: dict[str, Any]) -> Path:
    """Write benchmarks/results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def spread(values: Sequence[float]) -> str:
    """`median (min-max)` of an odd or even number of values."""
    ordered = sorted(values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return f"{middle:.2f} ({ordered[0]:.2f}-{ordered[-1]:.2f})"


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in record.items()}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
