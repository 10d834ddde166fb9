"""The page of benches/report.py: charts as SVG inside of HTML that needs nothing else, for light and dark."""

import html
import math

# Columns in the order in which they are shown, with their names.
NAMES = {
    "jit": "Vireo, machine code",
    "interp": "Vireo, interpreter",
    "IREE": "IREE, interpreter",
    "IREE native": "IREE, native kernels",
    "Vireo native": "Vireo, native kernels",
    "wasmtime": "Wasmtime, Cranelift",
    "wasmi": "wasmi",
    "native": "Rust",
}
UNITS = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1)]

STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #f6f7f9; --ink: #1c2330; --soft: #5a6475; --line: #d5dae2;
  --c0: #1769e0; --c1: #86b4f2; --c2: #e07b17; --c3: #f0b878; --c4: #12356f; --c5: #7a4fd0; --c6: #b9a3e6; --c7: #2a8f5b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171d; --card: #1d222b; --ink: #e8ecf3; --soft: #9aa5b8; --line: #363e4c;
    --c0: #5b9dff; --c1: #34598f; --c2: #f39a45; --c3: #8f5d2a; --c4: #c3dbff; --c5: #a98bf0; --c6: #5f4d8f; --c7: #4fc48a;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; } h3 { font-size: 1rem; margin: 0; }
p { margin: .25rem 0 .75rem; } .soft { color: var(--soft); font-size: .875rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 1rem; }
.card { background: var(--card); border-radius: .5rem; padding: .9rem 1rem; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; list-style: none; margin: 1rem 0; padding: 0; font-size: .875rem; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin-right: .45em; }
.wide { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; } .wide svg { min-width: 40rem; }
svg text { fill: var(--ink); } svg .tick { fill: var(--soft); font-size: 12px; } svg line { stroke: var(--line); }
svg .base { stroke: var(--soft); stroke-dasharray: 4 3; } svg circle { stroke: var(--page); stroke-width: 1.5; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td { vertical-align: top; } td .soft { display: block; font-size: .8rem; }
th { font-weight: 600; white-space: normal; vertical-align: bottom; }
""" + "".join(f".f{number} {{ fill: var(--c{number}); background: var(--c{number}); }}\n" for number in range(len(NAMES)))


def escape(text):
    return html.escape(str(text))


def duration(nanoseconds):
    """Three figures and a unit."""
    unit, size = next((pair for pair in UNITS if nanoseconds >= pair[1]), UNITS[-1])
    value = nanoseconds / size
    return f"{value:.{max(0, 2 - max(0, math.floor(math.log10(value)))) if value > 0 else 2}f} {unit}"


def times(ratio):
    return f"{ratio:.{0 if ratio >= 100 else 1 if ratio >= 10 else 2}f}x"


def fastest(row, label):
    figure = row["columns"].get(label)
    return figure["fastest_ns"] if figure else None


def labels_of(rows):
    return [label for label in NAMES if any(fastest(row, label) for row in rows)]


def ticks(low, high):
    """1, 2, 5, 10 and so on, from below `low` to above `high`."""
    steps = [factor * 10.0**power for power in range(-4, 7) for factor in (1, 2, 5)]
    below = max(step for step in steps if step <= low)
    above = min(step for step in steps if step >= high)
    return [step for step in steps if below <= step <= above]


def ratio_chart(rows, base):
    """A row for each program, a dot for each column: how many times as fast as `base`, on a logarithmic scale."""
    labels = [label for label in labels_of(rows) if label != base]
    points = [(row, [(label, fastest(row, base) / fastest(row, label)) for label in labels if fastest(row, label)]) for row in rows if fastest(row, base)]
    ratios = [ratio for _, dots in points for _, ratio in dots] + [1.0]
    marks = ticks(min(ratios), max(ratios))
    left, right, top, height = 130, 880, 12, 30
    bottom = top + height * len(points)
    span = math.log(marks[-1] / marks[0]) or 1.0

    def x(ratio):
        return left + (right - left) * math.log(ratio / marks[0]) / span

    parts = [f'<svg viewBox="0 0 900 {bottom + 26}" role="img" aria-label="times as fast as {escape(NAMES[base])}">']
    for mark in marks:
        parts.append(f'<line class="{"base" if mark == 1 else ""}" x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="{top - 6}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x(mark):.1f}" y="{bottom + 18}" text-anchor="middle">{mark:g}x</text>')
    for number, (row, dots) in enumerate(points):
        y = top + height * number + height / 2
        parts.append(f'<text x="{left - 14}" y="{y + 4:.0f}" text-anchor="end">{escape(row["name"])}</text>')
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        # What comes first is drawn last, on top.
        for label, ratio in reversed(dots):
            title = f"{row['name']}: {NAMES[label]} {times(ratio)}"
            size = 8 if label == "jit" else 6
            parts.append(f'<circle class="f{list(NAMES).index(label)}" cx="{x(ratio):.1f}" cy="{y:.1f}" r="{size}"><title>{escape(title)}</title></circle>')
    return "".join(parts) + "</svg>"


def bar_chart(row, labels):
    """A bar for each column, with its time."""
    bars = [(label, fastest(row, label)) for label in labels if fastest(row, label)]
    longest = max(time for _, time in bars)
    left, width, height = 140, 112, 24
    parts = [f'<svg viewBox="0 0 312 {height * len(bars)}" role="img" aria-label="times of {escape(row["name"])}">']
    for number, (label, time) in enumerate(bars):
        y = number * height
        length = max(1.5, width * time / longest)
        noisy = " ~" if row["columns"][label].get("noisy") else ""
        parts.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end" font-size="12">{escape(NAMES[label])}</text>')
        parts.append(f'<rect class="f{list(NAMES).index(label)}" x="{left}" y="{y + 4}" width="{length:.1f}" height="{height - 9}" rx="2"/>')
        parts.append(f'<text x="{left + length + 6:.1f}" y="{y + 16}" font-size="12">{duration(time)}{noisy}</text>')
    return "".join(parts) + "</svg>"


def cards(rows, subtitle):
    labels = labels_of(rows)
    parts = []
    for row in rows:
        if any(fastest(row, label) for label in labels):
            parts.append(f'<div class="card"><h3>{escape(row["name"])}</h3><p class="soft">{escape(subtitle(row))}</p>{bar_chart(row, labels)}</div>')
    return f'<div class="cards">{"".join(parts)}</div>'


# Whose time the machine code of Vireo is compared with in the table, besides the base.
AGAINST = ["wasmtime", "native"]


def table(rows, base):
    labels = labels_of(rows)
    against_others = [label for label in AGAINST if label in labels and "jit" in labels]
    head = "".join(f"<th>{escape(NAMES[label])}</th>" for label in labels)
    head += "".join(f"<th>to {escape(NAMES[label].partition(',')[0])}</th>" for label in against_others)
    body = ""
    for row in rows:
        body += f"<tr><td>{escape(row['name'])}</td>"
        for label in labels:
            time, against = fastest(row, label), fastest(row, base)
            if not time:
                body += "<td>-</td>"
                continue
            beside = f'<span class="soft">{times(against / time)}</span>' if against and label != base else ""
            body += f"<td>{duration(time)}{beside}</td>"
        for label in against_others:
            ours, theirs = fastest(row, "jit"), fastest(row, label)
            body += f"<td>{times(ours / theirs)}</td>" if ours and theirs else "<td>-</td>"
        body += "</tr>"
    last = " Last: the time of Vireo's machine code, as a multiple of that of others." if against_others else ""
    note = f'<p class="soft">Below each time: how many times as fast as {escape(NAMES[base])}.{last}</p>'
    return f'{note}<div class="wide"><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def key(measured, labels):
    items = ""
    for label in labels:
        # The name is not said twice.
        version = (measured["versions"].get(label) or "").removeprefix(NAMES[label].partition(",")[0]).strip()
        said = f' <span class="soft">{escape(version)}</span>' if version else ""
        items += f'<li><i class="f{list(NAMES).index(label)}"></i>{escape(NAMES[label])}{said}</li>'
    return f'<ul class="key">{items}</ul>'


def program_subtitle(row):
    return f"one {row['step']} of {row['steps']:,}" if row["steps"] > 1 else "a call"


def section(title, rows, subtitle, text):
    """Ratios, times and figures; against IREE where it was measured."""
    base = next((label for label in ("IREE", "interp", "jit") if any(fastest(row, label) for row in rows)), None)
    if base is None:
        return ""
    return (
        f"<h2>{escape(title)}</h2><p>{escape(text)}</p>"
        f'<h3>How many times as fast as {escape(NAMES[base])}</h3><div class="wide">{ratio_chart(rows, base)}</div>'
        f'<h3 style="margin:1.5rem 0 .6rem">Times</h3>{cards(rows, subtitle)}<div style="height:1.25rem"></div>{table(rows, base)}'
    )


def plain(title, text, head, rows):
    """A section with a table alone, if there is something in it."""
    if not rows:
        return ""
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<h2>{escape(title)}</h2><p>{escape(text)}</p><div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def calls_section(calls):
    kinds = {"jit_ns": "typed call, machine code", "interp_ns": "interpreter", "call_into_ns": "call with lists of values", "wasmtime_ns": "Wasmtime", "wasmi_ns": "wasmi"}
    rows = [
        [name, *(duration(one[kind]) for kind in kinds), times(one["jit_ns"] / one["wasmtime_ns"]), times(one["interp_ns"] / one["wasmi_ns"])]
        for name, one in calls.items()
    ]
    text = (
        "Small functions called from Rust; in the row `import`, a function in Rust called by a program. The ratios are the times of typed calls as"
        " multiples of those of Wasmtime and, in the interpreter, of wasmi."
    )
    return plain("Calls from Rust", text, ["function", *kinds.values(), "to Wasmtime", "to wasmi"], rows)


def start_section(start):
    rows = []
    for name, one in start.items():
        ours, theirs = one["vireo"], one["IREE"]
        memory = [f"{side['peak_bytes'] / 1e6:.1f} MB" for side in (ours, theirs)]
        ratios = [times(ours["fastest_s"] / theirs["fastest_s"]), times(ours["peak_bytes"] / theirs["peak_bytes"])]
        rows.append([name, duration(ours["fastest_s"] * 1e9), duration(theirs["fastest_s"] * 1e9), ratios[0], *memory, ratios[1]])
    text = "One call by the command, from the start of the process to its end, and the peak of its memory, in which the touched pages of files count."
    return plain("Start", text, ["network", "vireo run", "iree-run-module", "ratio", "memory", "IREE's memory", "ratio"], rows)


def native_section(native, scaling):
    rows = []
    for name, settings in native.items():
        cells = [name]
        for setting in ("local-sync", "local-task, two"):
            ours, theirs = ((settings.get(setting, {}).get(tool) or {}).get("fastest_ns") for tool in ("vireo", "IREE"))
            cells += [duration(ours), times(ours / theirs)] if ours and theirs else ["-", "-"]
        gains = [scaling.get(kind, {}).get(name) for kind in ("native", "bytecode")]
        rows.append(cells + [times(gain) if gain else "-" for gain in gains])
    head = ["network", "one processor", "to IREE", "two processors", "to IREE", "gain of the second", "the same in bytecode"]
    text = "Kernels that the IREE compiler made for this processor. Ratios are the time of Vireo as a multiple of IREE's; the gain is how many times as fast two processors are as one."
    return plain("Native kernels, one and two processors", text, head, rows)


def sweep_section(sweep):
    keys = ("least", "p10", "median", "p90", "worst", "mean")
    rows = [[family, one["kernels"], *(times(one[key]) for key in keys), f"{one['good']:.0%}", f"{one['bearable']:.0%}"] for family, one in sweep.items()]
    text = "Generated kernels: the time of portable bytecode as a multiple of that of machine code which the IREE compiler made for this processor, both run by Vireo."
    return plain("Sweep", text, ["family", "kernels", "least", "p10", "median", "p90", "worst", "geometric mean", "at most 1.2x", "at most 4x"], rows)


def page(measured):
    """The whole page."""
    rows = measured["programs"] + measured["networks"]
    machine, settings = measured["machine"], measured["settings"]
    revision = measured.get("commit")
    where = [f"commit {revision}" if revision else None, machine.get("processor"), machine.get("vectors"), f"{machine['processors']} processors", machine["architecture"], machine["system"]]
    share = measured.get("others")
    busy = "" if share is None else f" Other processes used {share:.0%} of the machine meanwhile."
    skipped = "".join(f"<li><b>{escape(NAMES.get(label, label))}</b>: {escape(why)}</li>" for label, why in measured["skipped"].items())
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Vireo side by side</title><style>{STYLE}</style></head><body>
<h1>Vireo side by side</h1>
<p class="soft">{escape(measured['when'])} · {escape(' · '.join(part for part in where if part))}</p>
{key(measured, labels_of(rows))}
<p class="soft">All commands ran in turn, pinned to processor {settings['processor']}; shown is the fastest of {settings['rounds']} rounds of
{settings['repetitions']} repetitions of {settings['seconds']} s. <b>~</b> marks a figure whose median is more than a fifth above
it.{escape(busy)}</p>
{section('Programs of the VM', measured['programs'], program_subtitle, 'The same algorithms everywhere, in the same order of loops and of additions. IREE and Vireo run one file; Wasmtime and wasmi a translation to WebAssembly; Rust is what its compiler makes with all the time it wants, and can be stopped by nothing.') if measured['programs'] else ''}
{section('Networks', measured['networks'], lambda row: 'a whole call, on one thread', 'Kernels are portable bytecode (VMVX), except for those called native, which the IREE compiler has made for this processor.') if measured['networks'] else ''}
{calls_section(measured.get('calls', {}))}
{native_section(measured.get('native', {}), measured.get('scaling', {}))}
{start_section(measured.get('start', {}))}
{sweep_section(measured.get('sweep', {}))}
{f'<h2>Left out</h2><ul class="soft">{skipped}</ul>' if skipped else ''}
</body></html>
"""
