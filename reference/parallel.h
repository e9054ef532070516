// Splits a range over threads. Each index is handled by exactly one call, so a result that depends
// only on its index does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace zerodiff::reference {

// Calls body(begin, end) on disjoint contiguous parts of [0, count), one for each thread, and waits
// for all of them. threads: 0 means one for each core. The first exception is rethrown.
void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace zerodiff::reference
