"""Models: small formulas that predict a kernel's time from bytes, operations, blocks and a device's ceilings.

Lessons import them by name. They use no GPU, clock or file.
"""

from tilewise.models.devices import DEVICES, Device, device
from tilewise.models.occupancy import Occupancy, occupancy
from tilewise.models.roofline import (
    Bound,
    Ceilings,
    attainable_tflop_per_s,
    bound,
    intensity_flop_per_byte,
    stated,
)
from tilewise.models.traffic import bytes_in_flight, sectors_of_stride
from tilewise.models.waves import Waves, waves

__all__ = [
    "DEVICES",
    "Bound",
    "Ceilings",
    "Device",
    "Occupancy",
    "Waves",
    "attainable_tflop_per_s",
    "bound",
    "bytes_in_flight",
    "device",
    "intensity_flop_per_byte",
    "occupancy",
    "sectors_of_stride",
    "stated",
    "waves",
]
