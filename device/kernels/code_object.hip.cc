// Every kernel in one translation unit: a code object of AMD GPUs, or PTX. Kernels keep their plain
// names; docs/kernels.md lists their arguments.
#include "device/kernels/kernel_list.hip.h"
