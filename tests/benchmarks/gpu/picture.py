"""Draw a report as an SVG: how many times faster than each comparison the kernels are."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.gpu.figures import COMPILED, FAST, TORCH, TRITON, Figure, Report

COLORS = {COMPILED: "tab:blue", FAST: "tab:orange", TRITON: "tab:green", TORCH: "tab:red"}
#: Height of a row in inches, and of title and legend.
ROW, MARGIN = 0.19, 1.1


def draw(report: Report, path: Path) -> None:
    """Write the ratios of the bfloat16 figures; the same report gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    rows = [row for row in report.figures if row.dtype == "bfloat16"] or [*report.figures]
    rows = [row for row in rows if any(row.ratio(name) for name in COLORS)]
    if not rows:
        raise ValueError("the report must have a figure with a comparison")
    with mpl.rc_context({"svg.hashsalt": "gpu", "svg.fonttype": "none", "font.size": 8}):
        canvas = Canvas(figsize=(9, MARGIN + ROW * len(rows)), layout="constrained")
        axes = canvas.subplots()
        for name, color in COLORS.items():
            points = [(row.ratio(name), -at) for at, row in enumerate(rows)]
            points = [(ratio, at) for ratio, at in points if ratio]
            if points:
                axes.plot(*zip(*points, strict=True), "o", color=color, label=name)
        axes.axvline(1, color="gray", linestyle="--")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_yticks([-at for at in range(len(rows))], [*map(label, rows)])
        axes.grid(axis="both", linewidth=0.3)
        axes.set(xlabel="time of the comparison / time of the kernels")
        axes.set_title(f"{report.device}, MLX {report.mlx}, {rows[0].dtype}, {report.date}")
        canvas.legend(loc="outside lower center", ncols=len(COLORS))
        canvas.savefig(path, format="svg", metadata={"Date": None})


def label(row: Figure) -> str:
    shape = " x ".join(map(str, row.shape))
    return f"{row.operator} ({shape}), {row.work}"
