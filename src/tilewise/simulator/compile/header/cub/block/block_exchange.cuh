// A part of CUB: all that is here of it.
#pragma once
#include "../cub.cuh"
