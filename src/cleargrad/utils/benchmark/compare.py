"""Compare: measurements side by side, as a table. Read next: utils/tensorboard/__init__.py."""

from __future__ import annotations

from collections.abc import Iterable

from cleargrad.utils.benchmark.measurement import Measurement, select_unit

WORDS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


class Compare:
    """One table per label: a row for each sub_label, a column for each description."""

    def __init__(self, results: Iterable[Measurement]):
        self._results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        self._results += results

    def trim_significant_figures(self) -> None:
        """Accepted: times are shown with one decimal."""

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted: the table is plain text."""

    def highlight_warnings(self) -> None:
        """Accepted: the table has no warnings."""

    def print(self) -> None:
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(each.task_spec.label or each.task_spec.stmt for each in merged)
        tables = [
            table(label, [m for m in merged if (m.task_spec.label or m.task_spec.stmt) == label])
            for label in labels
        ]
        return "\n".join(tables)


def table(label: str, results: list[Measurement]) -> str:
    unit, scale = select_unit(min(result.median for result in results))
    columns = list(dict.fromkeys(result.task_spec.description or "" for result in results))
    rows: dict[tuple[int, str], dict[str, str]] = {}
    for result in results:
        spec = result.task_spec
        key = (spec.num_threads, spec.sub_label or spec.stmt)
        rows.setdefault(key, {})[spec.description or ""] = f"{result.median / scale:.1f}"
    first = max(len(name) for _, name in rows) + 6
    widths = [max(len(column), *[len(row.get(column, "")) for row in rows.values()]) for column in columns]
    titles = "  |  ".join(f"{column:>{width}}" for column, width in zip(columns, widths, strict=True))
    length = first + 5 + len(titles)
    lines = [f"[{f' {label} ':-^{length - 2}}]", " " * first + "  |  " + titles]
    for threads in dict.fromkeys(threads for threads, _ in rows):
        lines.append(f"{threads} threads: ".ljust(length, "-"))
        for (count, name), row in rows.items():
            if count == threads:
                cells = "  |  ".join(f"{row.get(c, ''):>{w}}" for c, w in zip(columns, widths, strict=True))
                lines.append(f"      {name}".ljust(first) + "  |  " + cells)
    return "\n".join([*lines, "", f"Times are in {WORDS[unit]} ({unit}).", ""])
