// Stackful contexts on one OS thread, pooled: where work-items wait for each other.
//
// A FiberPool and everything that runs on it belong to one OS thread. Stacks have 128 KiB (more
// under AddressSanitizer) and a guard page: overflowing one is a segmentation fault.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define ZERODIFF_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZERODIFF_ADDRESS_SANITIZER 1
#endif
#endif

namespace zerodiff::device {
inline namespace host {

// One context that can be switched to: a fiber of the pool, or the OS thread's own stack.
struct FiberContext {
  boost::context::fiber continuation;
  const void* stack_bottom = nullptr;  // for AddressSanitizer, which must know about switches
  std::size_t stack_size = 0;
  void* fake_stack = nullptr;
};

class FiberPool {
 public:
  // `job` is what a fiber does each time it is taken from the pool; it returns the context to go
  // on with, and the fiber is idle again. It must not throw.
  explicit FiberPool(std::function<FiberContext*()> job);
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;
  ~FiberPool();  // every fiber must be idle, and the OS thread's own context active

  FiberContext& active() { return *active_; }
  FiberContext& thread_context() { return thread_context_; }
  // An idle fiber, a new one if there is none; it leaves the pool. Throws std::bad_alloc.
  FiberContext& take();
  // Suspends the active context until somebody switches back to it. Inline: a switch leaves the
  // processor's prediction of returns one call out of step, so that each return after it costs a
  // misprediction, and there should be as few as possible.
  void switch_to(FiberContext& next);

  std::size_t size() const { return fibers_.size(); }

 private:
  struct Fiber;
  boost::context::fiber fiber_main(Fiber& self, boost::context::fiber&& from);
  // The two ends of a switch: `leave` on the old stack, `arrive` on the new one.
  void leave(FiberContext& next);
  void arrive(boost::context::fiber&& from);
  void announce_leaving(const FiberContext& next);
  void announce_arrival();

  std::function<FiberContext*()> job_;
  bool stopping_ = false;
  FiberContext thread_context_;
  FiberContext* active_ = &thread_context_;
  FiberContext* previous_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

inline void FiberPool::leave(FiberContext& next) {
  previous_ = active_;
  active_ = &next;
#ifdef ZERODIFF_ADDRESS_SANITIZER
  announce_leaving(next);
#endif
}

// Whoever switched here left its continuation: it is the way back to it.
inline void FiberPool::arrive(boost::context::fiber&& from) {
#ifdef ZERODIFF_ADDRESS_SANITIZER
  announce_arrival();
#endif
  previous_->continuation = std::move(from);
}

inline void FiberPool::switch_to(FiberContext& next) {
  leave(next);
  arrive(std::move(next.continuation).resume());
}

}  // namespace host
}  // namespace zerodiff::device
