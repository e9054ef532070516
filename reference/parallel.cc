#include "reference/parallel.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace zerodiff::reference {

void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  const auto wanted = threads > 0 ? static_cast<std::int64_t>(threads)
                                  : static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(count, 1));
  if (parts == 1) return body(0, count);

  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  const auto run_part = [&](std::int64_t part) {
    try {
      body(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      failures[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::int64_t part = 1; part < parts; ++part) helpers.emplace_back(run_part, part);
    run_part(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace zerodiff::reference
