// A library for hosts; a kernel needs nothing of its header.
#pragma once
