// Stackful contexts on one OS thread, pooled: where work-items wait for each other.
//
// A FiberPool and everything that runs on it belong to one OS thread.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

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
  // Suspends the active context until somebody switches back to it.
  void switch_to(FiberContext& next);

  std::size_t size() const { return fibers_.size(); }

 private:
  struct Fiber;
  boost::context::fiber fiber_main(Fiber& self, boost::context::fiber&& from);
  void arrived(boost::context::fiber&& from);

  std::function<FiberContext*()> job_;
  bool stopping_ = false;
  FiberContext thread_context_;
  FiberContext* active_ = &thread_context_;
  FiberContext* previous_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

}  // namespace host
}  // namespace zerodiff::device
