"""The machines of a project under the names that readers choose them by."""

import json

import pytest

from tilewise.measurements.archive import Archive
from tilewise.measurements.machines import machines
from tilewise.measurements.slugs import device_slug


@pytest.mark.parametrize(
    ("drivers", "names"),
    [
        (["NVIDIA H200", "NVIDIA H100 80GB HBM3"], ["H100", "H200"]),
        (["NVIDIA GeForce RTX 4090"], ["RTX 4090"]),
        (["NVIDIA Unheard Of 9"], ["Unheard Of 9"]),
        (["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"], ["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"]),
        ([], []),
    ],
)
def test_each_device_with_records_has_a_short_name(tmp_path, drivers, names):
    for driver in drivers:
        folder = tmp_path / "measurements" / device_slug(driver)
        folder.mkdir(parents=True)
        (folder / "a.json").write_text("cut o", encoding="utf-8")
        (folder / "b.json").write_text(json.dumps({"provenance": {"device": driver}}), encoding="utf-8")
    (tmp_path / "measurements" / "empty").mkdir(parents=True)
    found = machines(Archive(tmp_path))
    assert [one["name"] for one in found] == names
    assert {one["id"] for one in found} == {device_slug(driver) for driver in drivers}
