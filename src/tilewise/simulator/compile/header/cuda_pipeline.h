// What CUDA calls the pipeline and its primitives.
#pragma once
#include "cuda_pipeline_primitives.h"
