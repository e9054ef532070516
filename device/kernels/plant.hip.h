// Where tests can plant a kernel bug. A shipped build compiles the correct expression alone.
//
// ZERODIFF_PLANT(bug, correct, faulty) is `correct`, and `faulty` is not even compiled. The test
// build (tests/device/planted/plant.h, included first) takes `faulty` while the bug of that name is
// switched on. Each build's kernels stand in a namespace of their own, ZERODIFF_KERNEL_SET, so that
// both can live in one program.
#pragma once

#ifndef ZERODIFF_PLANT
#define ZERODIFF_PLANT(bug, correct, faulty) (correct)
#define ZERODIFF_KERNEL_SET kernels
#endif
