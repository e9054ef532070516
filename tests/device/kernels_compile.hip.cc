// All kernels in one translation unit, for compilers whose device need not be here.
#include "device/kernels/all_kernels.hip.h"
#include "device/kernels/attention_kernels.hip.h"
