// What NVRTC declares by itself, for clang's NVPTX backend: included before every source.
#pragma once
#include "prelude/language.h"
#pragma clang force_cuda_host_device begin
#include "prelude/vectors.h"
#include "prelude/numbers.h"
#include "prelude/warps.h"
#include "prelude/memory.h"
#pragma clang force_cuda_host_device end
// A function of the source without a mark is the GPU's, as with NVRTC's -default-device.
#pragma clang force_cuda_host_device begin
