"""``tilewise predict``: what the records ought to be on a device that has not been measured yet.

In: a device of the device table. Out: one file, and a line a row on stdout. An existing prediction is kept
unless it is forced: it is worth something only because it was made beforehand.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tilewise.errors import LessonError
from tilewise.measurements.archive import Archive, lesson_root
from tilewise.measurements.prediction import (
    extended,
    known_device,
    predict,
    prediction_path,
    read_prediction,
    write_prediction,
)
from tilewise.measurements.slugs import case_text


def write(name: str, out: str | None, force: bool, add: bool = False) -> int:
    """Predict every recorded row for a device and write the prediction.

    Args:
        name: the device, as the device table or its driver names it.
        out: the file; ``lessons/predictions/<device>.json`` where not given.
        force: replace a prediction that is there.
        add: keep it, and add the experiments that it lacks.

    Returns:
        0.

    Raises:
        LessonError: an unknown device, no records, or a prediction that is there already.
    """
    root = lesson_root()
    archive = Archive(root)
    wanted = known_device(name)
    path = Path(out) if out else prediction_path(root, wanted)
    made = predict(archive, wanted, datetime.now(UTC).strftime("%Y-%m-%d"))
    if add and path.is_file():
        made = extended(read_prediction(path, archive.shown(path)), made)
    elif path.is_file() and not force:
        raise LessonError(
            archive.shown(path),
            0,
            f"there is a prediction for the {wanted.name} already.",
            "Keep it: it was made beforehand. --add adds what it lacks, --force replaces it.",
        )
    write_prediction(made, path)
    print(f"{wanted.name} from {made.recorded_on}: memory {made.memory_ratio:g} times, "
          f"SMs times clock {made.chip_ratio:g} times")  # fmt: skip
    for row in made.rows:
        mark = "changes" if row.changes else "stays"
        print(
            f"{row.experiment}: {row.variant} ({case_text(row.case)}): {row.recorded_us:,.4g} us -> "
            f"{row.predicted_us:,.4g} us, {row.ratio:.2f} times as fast, {mark} ({row.waits_for})"
        )
    print(f"wrote {archive.shown(path)}")
    return 0
