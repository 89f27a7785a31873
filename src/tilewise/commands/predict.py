"""``tilewise predict``: what the records ought to be on a device that has not been measured yet.

In: a device of the device table. Out: one file, and a sentence on stdout. What was predicted before stays,
since it is worth something only because it was made beforehand; experiments that it lacks are added.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tilewise.measurements.archive import Archive, lesson_root
from tilewise.measurements.prediction import (
    extended,
    known_device,
    predict,
    prediction_path,
    read_prediction,
    write_prediction,
)


def write(name: str) -> int:
    """Predict every recorded row for a device and write the prediction.

    Args:
        name: the device, as the device table or its driver names it.

    Returns:
        0.

    Raises:
        LessonError: an unknown device, no records, or a prediction that was edited by hand.
    """
    root = lesson_root()
    archive = Archive(root)
    wanted = known_device(name)
    path = prediction_path(root, wanted)
    made = predict(archive, wanted, datetime.now(UTC).strftime("%Y-%m-%d"))
    if path.is_file():
        made = extended(read_prediction(path, archive.shown(path)), made)
    write_prediction(made, path)
    print(f"wrote {archive.shown(path)}: {len(made.rows)} rows, predicted from the {made.recorded_on}")
    return 0
