// A library for hosts; of its header a kernel has the types of 16 bits.
#pragma once
#include "cuda_fp16.h"
#include "cuda_bf16.h"
