// Every kernel, for code objects and registries.
#pragma once

#include "device/kernels/all_kernels.hip.h"
#include "device/kernels/attention_kernels.hip.h"
#include "device/kernels/selftest_kernels.hip.h"

// Their names, each as X(name).
#define ZERODIFF_KERNELS(X)     \
  ZERODIFF_ATTENTION_KERNELS(X) \
  ZERODIFF_INSERTION_KERNELS(X) \
  ZERODIFF_SELFTEST_KERNELS(X)
