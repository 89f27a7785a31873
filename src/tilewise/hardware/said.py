"""The comparison in plain text, as ``python -m tilewise.hardware --report`` prints it.

In: a ``Compared``. Out: ``report``: every residual with its reason, and what was not compared, by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.hardware.comparison import Compared, ComparedRow


def report(compared: Compared) -> str:
    """Every residual with its reason or the word that there is none, and what was not compared."""
    provenance = compared.record.provenance
    lines = [f"{compared.record.device}, {provenance['date']}: {len(compared.rows)} kernels"]
    for row in compared.rows:
        lines += [*_counts(row), *_outputs(row)]
    equal = sum(
        not pair.residual and not pair.expected for row in compared.rows for pair in row.counts.values()
    )
    lines.append(f"  {equal} other counts are equal")
    lines += _named("not counted on this GPU yet", compared.uncounted)
    lines += _named("changed since they were counted", compared.changed)
    lines += _named("counted, and launched no more", compared.gone)
    return "\n".join(lines)


def _counts(row: ComparedRow) -> list[str]:
    return [
        f"  {row.name}: {name}: simulator {pair.simulated:,}, hardware {pair.counted:,}, "
        f"residual {pair.residual:+,}: {pair.why.title if pair.why else 'NOT EXPLAINED'}"
        for name, pair in row.counts.items()
        if pair.residual or pair.expected
    ]


def _outputs(row: ComparedRow) -> list[str]:
    lines = []
    for output, distance in row.simulated.outputs.items():
        if distance.same_bits:
            continue
        why = row.why(output)
        bound = why.title if why else "within its bound" if distance.allowed else "NOT ALLOWED"
        far = "an unknown distance" if distance.largest is None else f"up to {distance.largest:.3g}"
        lines.append(f"  {row.name}: {output} differs by {far}: {bound}")
    return lines


def _named(title: str, names: Sequence[str]) -> list[str]:
    return [f"  {title}: {len(names)}", *(f"    {name}" for name in names)] if names else []
