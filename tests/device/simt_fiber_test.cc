// The fibers under the executor, on their own.
#include "device/host/fiber.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace zerodiff::device {
namespace {

TEST(SimtFiber, TakesTurnsWithTheThread) {
  std::vector<int> trace;
  FiberPool* pool = nullptr;
  FiberPool fibers([&] {
    trace.push_back(1);
    pool->switch_to(pool->thread_context());
    trace.push_back(3);
    return &pool->thread_context();
  });
  pool = &fibers;
  FiberContext& fiber = fibers.take();
  fibers.switch_to(fiber);
  trace.push_back(2);
  fibers.switch_to(fiber);
  trace.push_back(4);
  EXPECT_EQ(trace, (std::vector<int>{1, 2, 3, 4}));
}

TEST(SimtFiber, UsesIdleFibersAgain) {
  int jobs = 0;
  FiberPool* pool = nullptr;
  FiberPool fibers([&] {
    ++jobs;
    return &pool->thread_context();
  });
  pool = &fibers;
  for (int i = 0; i < 1000; ++i) fibers.switch_to(fibers.take());
  EXPECT_EQ(jobs, 1000);
  EXPECT_EQ(fibers.size(), 1u);
}

// A ring of fibers, each with an exception of its own in flight and gone between two switches.
TEST(SimtFiber, ThrowsAndCatchesOnManyStacks) {
  constexpr int kFibers = 64;
  constexpr int kRounds = 20;
  std::vector<FiberContext*> ring;
  std::vector<int> caught(kFibers, 0);
  int self = 0;
  FiberPool* pool = nullptr;
  FiberPool fibers([&] {
    const int me = self;
    for (int round = 0; round < kRounds; ++round) {
      try {
        throw std::runtime_error(std::to_string(me));
      } catch (const std::runtime_error& error) {
        caught[static_cast<std::size_t>(me)] += error.what() == std::to_string(me) ? 1 : 0;
      }
      self = (me + 1) % kFibers;
      pool->switch_to(*ring[static_cast<std::size_t>(self)]);
    }
    self = me + 1;
    return me + 1 == kFibers ? &pool->thread_context() : ring[static_cast<std::size_t>(self)];
  });
  pool = &fibers;
  for (int i = 0; i < kFibers; ++i) ring.push_back(&fibers.take());
  fibers.switch_to(*ring[0]);
  EXPECT_EQ(caught, std::vector<int>(kFibers, kRounds));
}

TEST(SimtFiber, HasStackForALargeFrame) {
  int sum = 0;
  FiberPool* pool = nullptr;
  FiberPool fibers([&] {
    volatile char frame[64 * 1024];
    for (std::size_t i = 0; i < sizeof(frame); i += 512) frame[i] = 1;
    for (std::size_t i = 0; i < sizeof(frame); i += 512) sum += frame[i];
    return &pool->thread_context();
  });
  pool = &fibers;
  fibers.switch_to(fibers.take());
  EXPECT_EQ(sum, 128);
}

}  // namespace
}  // namespace zerodiff::device
