// What this has in CUDA, a kernel has here without it.
#pragma once
