// A part of cuRAND's device API: all that is here of it.
#pragma once
#include "curand_kernel.h"
