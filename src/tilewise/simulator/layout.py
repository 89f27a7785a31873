"""What Python and the compiled machine hand each other: structures and rows, laid out as in ``launch.h``.

In and out: nothing; ``machine`` checks their sizes against the library's when it loads it.
"""

from __future__ import annotations

import ctypes

import numpy as np

COUNTERS = [
    "gl_requests",
    "gl_sectors",
    "gl_lines",
    "gl_useful",
    "gl_lanes",
    "gs_requests",
    "gs_sectors",
    "gs_lines",
    "gs_useful",
    "gs_lanes",
    "ga_requests",
    "ga_sectors",
    "ga_lines",
    "ga_useful",
    "ga_lanes",
    "sl_requests",
    "sl_wavefronts",
    "sl_useful",
    "sl_lanes",
    "ss_requests",
    "ss_wavefronts",
    "ss_useful",
    "ss_lanes",
    "sa_requests",
    "sa_wavefronts",
    "sa_useful",
    "sa_lanes",
    "issued",
    "active_lanes",
    "barriers",
    "divergent",
    "local_requests",
    "local_useful",
    "bl_requests",
    "bl_sectors",
    "bl_useful",
    "bl_delivered",
    "bs_requests",
    "bs_sectors",
    "bs_useful",
    "bs_delivered",
    "wgmma",
    "mbarriers",
]

HAZARD = np.dtype(
    [
        (name, np.int32)
        for name in [
            "kind",
            "line",
            "block",
            "warp",
            "lane",
            "thread",
            "buffer",
            "size",
            "write",
            "other_line",
            "other_warp",
            "count",
            "other_block",
            "agent",
            "caller",
            "other_lane",
        ]
    ]
    + [("address", np.uint64), ("index", np.int64)]
)
ACCESS = np.dtype(
    [
        (name, np.int32)
        for name in ["step", "block", "warp", "lane", "line", "space", "kind", "size", "buffer", "interval"]
    ]
    + [("address", np.uint64), ("index", np.int64), ("bits", np.uint64)]
)
WORD_BYTES = 36
"""Bytes that the machine keeps for each word of a global array that it watches for races."""


class Buffer(ctypes.Structure):
    """One array of global memory."""

    _fields_ = (
        ("size", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("writable", ctypes.c_int32),
        ("id", ctypes.c_int32),
        ("words", ctypes.c_void_p),
    )


class Launch(ctypes.Structure):
    """Everything that ``tw_run`` reads and writes; the layout of ``Launch`` in ``machine.c``."""

    _fields_ = (
        ("code", ctypes.c_void_p),
        ("n_code", ctypes.c_int64),
        ("consts", ctypes.c_void_p),
        ("units", ctypes.c_int64),
        ("params", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("n_buffers", ctypes.c_int64),
        ("grid", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32 * 3),
        ("shared_bytes", ctypes.c_int64),
        ("local_bytes", ctypes.c_int64),
        ("shared_grain", ctypes.c_int32),
        ("entry", ctypes.c_int32),
        ("counts", ctypes.c_void_p),
        ("n_lines", ctypes.c_int64),
        ("hazards", ctypes.c_void_p),
        ("max_hazards", ctypes.c_int64),
        ("n_hazards", ctypes.c_int64),
        ("collect", ctypes.c_int32),
        ("tracing", ctypes.c_int32),
        ("max_steps", ctypes.c_int64),
        ("steps", ctypes.c_int64),
        ("trace_blocks", ctypes.c_void_p),
        ("trace_warps", ctypes.c_void_p),
        ("accesses", ctypes.c_void_p),
        ("n_accesses", ctypes.c_int64),
        ("cap_accesses", ctypes.c_int64),
        ("max_trace_steps", ctypes.c_int64),
        ("sm_count", ctypes.c_int32),
        ("used_clock", ctypes.c_int32),
        ("stop_line", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("owners", ctypes.c_void_p),
        ("slice", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("releases", ctypes.c_void_p),
        ("global_grain", ctypes.c_int64),
        ("text", ctypes.c_void_p),
        ("n_text", ctypes.c_int64),
        ("cap_text", ctypes.c_int64),
        ("state", ctypes.c_void_p),
        ("cluster", ctypes.c_int32 * 3),
        ("agents", ctypes.c_int32),
        ("last", ctypes.c_int64),
    )
