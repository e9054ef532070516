// LDS arrays of the work-group that the calling OS thread runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "device/host/call_site.h"
#include "device/host/memory_region.h"
#include "device/host/view.h"

namespace zerodiff::device {
inline namespace host {

// An LDS array as a kernel declares it; its address is its identity.
struct SharedDeclaration {
  static constexpr std::int64_t kDynamic = -1;

  const char* name;
  std::uint32_t element_bytes;
  std::int64_t count;  // or kDynamic: as many as the launch's LDS bytes hold
  CallSite site;
};

struct SharedArray {
  std::byte* base = nullptr;
  const MemoryRegion* region = nullptr;  // null if accesses are not checked
};

// The LDS of one group at a time. Dynamic arrays start at its first byte, static ones follow in the
// order in which the launch's first group comes by them.
class SharedMemory {
 public:
  SharedMemory(std::int64_t limit, bool checked);

  void begin_launch(std::int64_t dynamic_bytes);
  // Unchecked memory gets the same content for each group, so that results are reproducible.
  void begin_group();
  // Raises lds_capacity if the limit is passed.
  SharedArray find(const SharedDeclaration& declaration);

 private:
  struct Array {
    const SharedDeclaration* declaration;
    MemoryRegion region;
    std::unique_ptr<std::uint64_t[]> stamps;  // of writers, then of readers
  };
  struct FreeAligned {
    void operator()(std::byte* storage) const;
  };
  Array& allocate(const SharedDeclaration& declaration);

  std::int64_t limit_;
  bool checked_;
  std::int64_t dynamic_bytes_ = 0;
  std::int64_t used_ = 0;
  std::unique_ptr<std::byte[], FreeAligned> storage_;
  std::deque<Array> arrays_;
};

// The array in the running group's LDS.
SharedArray find_shared_array(const SharedDeclaration& declaration);

template <class T>
SharedView<T> shared_array(const SharedDeclaration& declaration) {
  const SharedArray array = find_shared_array(declaration);
  return {array.region, reinterpret_cast<T*>(array.base), 0};
}

}  // namespace host
}  // namespace zerodiff::device
