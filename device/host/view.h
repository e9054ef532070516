// View<T> on the host: a pointer that checks each access against the memory it points into.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "device/host/call_site.h"
#include "device/host/memory_region.h"

namespace zerodiff::device {
inline namespace host {

// An element index together with the place that uses it.
struct AccessIndex {
  std::int64_t value;
  CallSite site;

  template <class I>
  requires(std::convertible_to<I, std::int64_t> && !std::floating_point<I>)
      AccessIndex(I index,
                  CallSite where = CallSite::here())  // NOLINT(google-explicit-constructor)
      : value(static_cast<std::int64_t>(std::move(index))), site(where) {}
};

template <class T>
class ElementReference;

// Points to element `offset` of a region (or, without a region, of plain memory: unchecked).
// Bounds are the region's, whatever the offset; forming a pointer outside of them is no error.
template <class T>
class View {
 public:
  using Element = std::remove_const_t<T>;

  View() = default;  // points nowhere
  View(const MemoryRegion* region, T* base, std::int64_t offset)
      : base_(base), offset_(offset), region_(region) {}
  template <class U>
  requires(std::is_const_v<T>&& std::same_as<U, Element>)
      View(const View<U>& other)  // NOLINT(google-explicit-constructor): as T* to const T*
      : View(other.region(), other.base(), other.offset()) {}

  // Reading through View<const T> gives the value; View<T> gives a reference that tells reads from
  // writes.
  auto operator[](AccessIndex index) const {
    if constexpr (std::is_const_v<T>) {
      return read(index);
    } else {
      return ElementReference<T>(*this, index);
    }
  }

  friend View operator+(View view, std::int64_t elements) {
    return {view.region_, view.base_, view.offset_ + elements};
  }
  explicit operator bool() const { return base_ != nullptr; }

  const MemoryRegion* region() const { return region_; }
  T* base() const { return base_; }
  std::int64_t offset() const { return offset_; }

  Element read(const AccessIndex& index) const {
    const std::int64_t element = offset_ + index.value;
    if (region_ != nullptr) check_read(element, 1, index.site);
    // Another work-group may write the same element at this moment: a data race of the kernel's,
    // reported as such, must not be one of the executor's.
    return std::atomic_ref<Element>(const_cast<Element&>(base_[element]))
        .load(std::memory_order_relaxed);
  }

  void write(const AccessIndex& index, Element value) const requires(!std::is_const_v<T>) {
    const std::int64_t element = offset_ + index.value;
    if (region_ == nullptr) {
      std::atomic_ref<T>(base_[element]).store(value, std::memory_order_relaxed);
      return;
    }
    check_bounds(element, 1, Access::write, index.site);
    tracked_write(*region_, element, 1, &value, index.site);
  }

  void check_bounds(std::int64_t element, std::int64_t count, Access access, CallSite site) const {
    if (element < 0 || element > region_->count - count) [[unlikely]] {
      raise_out_of_bounds(*region_, element, count, access, site);
    }
  }
  void check_read(std::int64_t element, std::int64_t count, CallSite site) const {
    check_bounds(element, count, Access::read, site);
    if (region_->tracking != Tracking::none) note_read(*region_, element, count, site);
  }

 private:
  T* base_ = nullptr;
  std::int64_t offset_ = 0;
  const MemoryRegion* region_ = nullptr;
};

// LDS arrays are views, too; on GPUs they are pointers without __restrict__.
template <class T>
using SharedView = View<T>;

// What view[index] gives: usable at once, as a value or as the target of an assignment, and not
// to be kept (`auto x = view[i]` would read when x is used; using such an x does not compile).
template <class T>
class ElementReference {
 public:
  ElementReference(const View<T>& view, const AccessIndex& index) : view_(view), index_(index) {}
  ElementReference(const ElementReference&) = delete;

  operator T() const&& { return view_.read(index_); }  // NOLINT(google-explicit-constructor)
  const ElementReference&& operator=(
      T value) const&& {  // NOLINT(misc-unconventional-assign-operator)
    view_.write(index_, value);
    return std::move(*this);
  }
  const ElementReference&& operator=(const ElementReference& other) const&& {  // NOLINT
    view_.write(index_, other.view_.read(other.index_));
    return std::move(*this);
  }
  const ElementReference&& operator+=(T value) const&& {
    view_.write(index_, static_cast<T>(view_.read(index_) + value));
    return std::move(*this);
  }

 private:
  View<T> view_;
  AccessIndex index_;
};

// 16 bytes of elements, moved in one access.
template <class T>
struct alignas(16) Vec16 {
  T e[16 / sizeof(T)];
};

template <class T>
void check_alignment(const View<T>& view, const AccessIndex& index, Access access) {
  const std::int64_t element = view.offset() + index.value;
  if (reinterpret_cast<std::uintptr_t>(view.base() + element) % 16 != 0) [[unlikely]] {
    raise_misaligned(*view.region(), element, access, index.site);
  }
}

template <class T>
Vec16<std::remove_const_t<T>> load16(View<T> view, AccessIndex index) {
  using Element = std::remove_const_t<T>;
  constexpr std::int64_t kCount = 16 / sizeof(T);
  const std::int64_t element = view.offset() + index.value;
  if (view.region() != nullptr) {
    view.check_bounds(element, kCount, Access::read, index.site);
    check_alignment(view, index, Access::read);
    if (view.region()->tracking != Tracking::none) {
      note_read(*view.region(), element, kCount, index.site);
    }
  }
  Vec16<Element> values;
  for (std::int64_t i = 0; i < kCount; ++i) {
    values.e[i] = std::atomic_ref<Element>(const_cast<Element&>(view.base()[element + i]))
                      .load(std::memory_order_relaxed);
  }
  return values;
}

template <class T>
void store16(View<T> view, AccessIndex index, const Vec16<T>& values) {
  constexpr std::int64_t kCount = 16 / sizeof(T);
  const std::int64_t element = view.offset() + index.value;
  if (view.region() == nullptr) {
    std::memcpy(view.base() + element, values.e, sizeof(values));
    return;
  }
  view.check_bounds(element, kCount, Access::write, index.site);
  check_alignment(view, index, Access::write);
  tracked_write(*view.region(), element, kCount, values.e, index.site);
}

}  // namespace host
}  // namespace zerodiff::device
