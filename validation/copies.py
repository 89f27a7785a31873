"""Bulk copies and wgmma: a GPU's counters and the simulator's counts.

In: the lessons' kernels that use them. Out: the device's record, and the counts of a kernel that must be
equal. A test simulates the kernels and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewise.simulator import Counts
from validation.record import Counted, DeviceRecord
from validation.specimen import Specimen

KIND = "copies"
METRICS: Mapping[str, str] = {
    "load_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
    "store_sectors": "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum",
    "reduce_sectors": "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_red.sum",
    "tma_instructions": "sm__inst_executed_pipe_tma.sum",
    "wgmma_warp_instructions": "sm__inst_executed_pipe_tensor_op_gmma.sum",
}
"""Nsight Compute's counters by our names. TMA instructions include ``commit_group``."""


def uses(specimen: Specimen) -> bool:
    """Whether a kernel uses bulk copies or wgmma."""
    text = specimen.launch.kernel.preprocessed
    return "cp.async.bulk" in text or "wgmma." in text


def without_outputs(record: DeviceRecord[Counted]) -> DeviceRecord[Counted]:
    """A record without outputs, which the record of all counts compares."""
    return replace(record, kind=KIND, rows=tuple(replace(row, outputs={}) for row in record.rows))


def pairs(counts: Counts, counters: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """By name, the simulator's and the hardware's counts of a kernel that must be equal.

    The hardware also counts zero fill and every block that a multicast reaches, so loads are compared only if
    every box is inside its array and goes to one block.
    """
    stored = counters["store_sectors"] + counters["reduce_sectors"]
    counts_by_name = {
        "sectors of bulk stores": (counts.bulk_store.sectors, stored),
        "wgmma by warps": (4 * counts.wgmma, counters["wgmma_warp_instructions"]),
    }
    if counts.bulk_load.useful_bytes == counts.bulk_load.shared_bytes:
        counts_by_name["sectors of bulk loads"] = (counts.bulk_load.sectors, counters["load_sectors"])
    return counts_by_name
