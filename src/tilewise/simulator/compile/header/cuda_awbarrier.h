// What CUDA calls the asynchronous barrier and its primitives.
#pragma once
#include "cuda_awbarrier_primitives.h"
#include "cuda/barrier"
