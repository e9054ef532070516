// Where tests can plant a kernel bug. A shipped build compiles the correct expression alone.
//
// ZERODIFF_PLANT(bug, correct, faulty) is `correct`; the test build (tests/device/planted/plant.h)
// takes `faulty` while the bug of that name is switched on. Kernels stand in a namespace of their
// own kind, ZERODIFF_KERNEL_SET, so that both builds can live in one program.
#pragma once

#ifndef ZERODIFF_PLANT
#define ZERODIFF_PLANT(bug, correct, faulty) (correct)
#define ZERODIFF_KERNEL_SET kernels
#endif
