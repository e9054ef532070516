// All insertion kernels in one translation unit, for compilers whose device need not be here.
#include "device/kernels/all_kernels.hip.h"
