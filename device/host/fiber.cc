#include "device/host/fiber.h"

#include <boost/context/preallocated.hpp>
#include <cassert>
#include <utility>

#ifdef ZERODIFF_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace zerodiff::device {
inline namespace host {
namespace {

#ifdef ZERODIFF_ADDRESS_SANITIZER
constexpr std::size_t kStackBytes = 512 * 1024;  // red zones make frames several times larger
// The frames of a fiber that ends are never left one by one, and their red zones outlive munmap.
void forget_frames(const FiberContext& fiber) {
  __asan_unpoison_memory_region(fiber.stack_bottom, fiber.stack_size);
}
#else
constexpr std::size_t kStackBytes = 128 * 1024;  // mapped, not touched
void forget_frames(const FiberContext&) {}
#endif

// The pool keeps the stacks; a fiber that ends must not free its own.
struct KeepStack {
  void deallocate(boost::context::stack_context&) const noexcept {}
};

}  // namespace

struct FiberPool::Fiber : FiberContext {
  explicit Fiber(std::size_t number)
      : stack(boost::context::protected_fixedsize_stack(kStackBytes).allocate()) {
    // Stacks are page-aligned: without an offset the hot top lines of all of them would compete
    // for the same few sets of the first-level cache.
    const std::size_t colour = number % 32 * 128;
    stack_size = stack.size - colour;
    stack_bottom = static_cast<const char*>(stack.sp) - stack.size;
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
    forget_frames(*this);
    boost::context::protected_fixedsize_stack(kStackBytes).deallocate(stack);
  }

  boost::context::stack_context stack;
};

FiberPool::FiberPool(std::function<FiberContext*()> job) : job_(std::move(job)) {}

FiberPool::~FiberPool() {
  assert(active_ == &thread_context_ && idle_.size() == fibers_.size());
  stopping_ = true;
  for (Fiber* fiber : idle_) switch_to(*fiber);
}

FiberContext& FiberPool::take() {
  if (!idle_.empty()) {
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    return *fiber;
  }
  Fiber& fiber = *fibers_.emplace_back(std::make_unique<Fiber>(fibers_.size()));
  idle_.reserve(fibers_.size());  // becoming idle must not throw
  boost::context::preallocated place(
      const_cast<char*>(static_cast<const char*>(fiber.stack_bottom)) + fiber.stack_size,
      fiber.stack_size, fiber.stack);
  fiber.continuation = boost::context::fiber(
      std::allocator_arg, place, KeepStack{},
      [this, &fiber](boost::context::fiber&& from) { return fiber_main(fiber, std::move(from)); });
  return fiber;
}

#ifdef ZERODIFF_ADDRESS_SANITIZER
void FiberPool::announce_leaving(const FiberContext& next) {
  __sanitizer_start_switch_fiber(&previous_->fake_stack, next.stack_bottom, next.stack_size);
}

void FiberPool::announce_arrival() {
  const void* old_bottom = nullptr;
  std::size_t old_size = 0;
  __sanitizer_finish_switch_fiber(active_->fake_stack, &old_bottom, &old_size);
  if (previous_ != &thread_context_) return;
  thread_context_.stack_bottom = old_bottom;
  thread_context_.stack_size = old_size;
}
#endif

boost::context::fiber FiberPool::fiber_main(Fiber& self, boost::context::fiber&& from) {
  arrive(std::move(from));
  while (!stopping_) {
    FiberContext* next = job_();
    idle_.push_back(&self);
    switch_to(*next);
  }
  // The fake stack is kept: frames that this return passes through are on it.
  leave(thread_context_);
  return std::move(thread_context_.continuation);
}

}  // namespace host
}  // namespace zerodiff::device
