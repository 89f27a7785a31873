"""Once: records of form 1, with one key for all of their rows, to form 2. To be deleted when all have passed.

In: the archive, then each experiment and lesson as it runs. Out: a key by tokens for the rows of each record
whose old key is that of now, and new keys for texts and predictions proven likewise. No figure is touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewise.measurements.archive import Archive
from tilewise.measurements.definitions import uses_key
from tilewise.measurements.experiment import Experiment
from tilewise.measurements.form import SCHEMA
from tilewise.measurements.key import METHOD_VERSION, digest, function_tokens, python_tokens, text_key
from tilewise.measurements.playback import LessonFile
from tilewise.measurements.prediction import Prediction
from tilewise.measurements.record import Record, RecordError, checksum, write_whole


class Migration:
    """What the records of form 1 said, which the constructor writes as form 2 without their keys."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._keys: dict[Path, str] = {}
        self._moved: dict[tuple[str, str, str], str] = {}
        for path in self._files():
            body = json.loads(path.read_bytes())
            if body["schema"] != 1:
                continue
            if body["checksum"] != checksum(body):
                raise RecordError(archive.shown(path), 0, "the record was edited by hand.")
            if body.get("kind") != "text":
                self._keys[path] = body.pop("key")
            self._write(path, body)

    def _files(self) -> Iterator[Path]:
        for device in self._archive.devices:
            yield from sorted((self._archive.folder / device).glob("*.json"))

    def _write(self, path: Path, body: dict[str, Any]) -> None:
        body["schema"] = SCHEMA
        write_whole(body | {"checksum": checksum(body)}, path)

    def proven(self, experiment: Experiment, path: Path, record: Record) -> Record:
        """A record with its rows' keys by tokens, where its old key proves that it holds."""
        old = _old_key(experiment)
        labels = [*experiment.variants, *experiment.library]
        extra = [] if experiment.count_case is None else [experiment.count_case]
        for case in (*experiment.cases, *extra):
            for label in labels:
                self._moved[old, label, _case(case)] = experiment.tokens(label, case)
        if self._keys.get(path) != old:
            if path in self._keys:
                print(f"{self._archive.shown(path)}: not proven by its old key")
            return record
        rows = [
            replace(row, tokens=self._moved.get((old, row.variant, _case(row.case)), ""))
            for row in record.rows
        ]
        return replace(record, rows=tuple(rows))

    def texts(self, lesson: LessonFile) -> None:
        """Write the new keys of a lesson's texts, where the old ones prove that they hold."""
        for cell in (one for one in lesson.cells if one.record):
            old = digest({"method": METHOD_VERSION, "cell": python_tokens(cell.source)})
            uses = uses_key(cell.source, lesson.code_before(cell))
            for device in self._archive.devices:
                path = self._archive.text_path(lesson.id, cell.record, device)
                body = json.loads(path.read_bytes()) if path.is_file() else {}
                if body.get("key") == old and body.get("uses", uses) == uses:
                    self._write(path, {**body, "key": text_key(cell.source)})

    def prediction(self, made: Prediction) -> Prediction:
        """A prediction with the keys of rows in place of those of whole records."""
        rows = [
            replace(row, key=self._moved.get((row.key, row.variant, _case(row.case)), row.key))
            for row in made.rows
        ]
        return replace(made, rows=tuple(rows))


def _case(case: Any) -> str:
    return json.dumps(dict(case), sort_keys=True, default=str)


def _old_key(experiment: Experiment) -> str:
    def facts(parameters: Any) -> dict[str, Any]:
        return {
            "parameters": {name: repr(value) for name, value in parameters.items()},
            "work": experiment.work(parameters),
            "variants": {
                label: [launch.fingerprint() for launch in experiment.launches(label, parameters)]
                for label in experiment.variants
            },
        }

    return digest(
        {
            "method": METHOD_VERSION,
            "experiment": experiment.name,
            "arithmetic": experiment.arithmetic,
            "timed": [facts(case) for case in experiment.cases],
            "counted": facts(experiment.count_case) if experiment.count_case is not None else None,
            "library": {label: function_tokens(function) for label, function in experiment.library.items()},
            **({"with_host": True} if experiment.with_host else {}),
        }
    )
