#include "device/host/shared_memory.h"

#include <cstring>
#include <new>
#include <string>

#include "device/host/work_item.h"

namespace zerodiff::device {
inline namespace host {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int kPoison = 0xA5;

constexpr std::int64_t round_up(std::int64_t bytes) {
  return (bytes + 15) / 16 * 16;
}

}  // namespace

void SharedMemory::FreeAligned::operator()(std::byte* storage) const {
  ::operator delete[](storage, kAlignment);
}

SharedMemory::SharedMemory(std::int64_t limit, bool checked)
    : limit_(limit),
      checked_(checked),
      storage_(new (kAlignment) std::byte[static_cast<std::size_t>(round_up(limit))]) {}

void SharedMemory::begin_launch(std::int64_t dynamic_bytes) {
  arrays_.clear();
  dynamic_bytes_ = dynamic_bytes;
  used_ = round_up(dynamic_bytes);
}

void SharedMemory::begin_group() {
  if (!checked_) std::memset(storage_.get(), kPoison, static_cast<std::size_t>(used_));
}

SharedArray SharedMemory::find(const SharedDeclaration& declaration) {
  for (Array& array : arrays_) {
    if (array.declaration == &declaration) {
      return {array.region.base, checked_ ? &array.region : nullptr};
    }
  }
  const Array& array = allocate(declaration);
  return {array.region.base, checked_ ? &array.region : nullptr};
}

SharedMemory::Array& SharedMemory::allocate(const SharedDeclaration& declaration) {
  const bool dynamic = declaration.count == SharedDeclaration::kDynamic;
  const std::int64_t count =
      dynamic ? dynamic_bytes_ / declaration.element_bytes : declaration.count;
  const std::int64_t offset = dynamic ? 0 : used_;
  const std::int64_t end = dynamic ? used_ : used_ + round_up(count * declaration.element_bytes);
  if (end > limit_) {
    raise_fault(FaultKind::lds_capacity, declaration.site,
                "LDS array " + std::string(declaration.name) + " ends at byte " +
                    std::to_string(end) + " of " + std::to_string(limit_));
  }
  std::memset(storage_.get() + offset, kPoison, static_cast<std::size_t>(end - used_));
  used_ = end;
  const auto words = static_cast<std::size_t>(count);
  Array& array = arrays_.emplace_back();
  array.declaration = &declaration;
  array.stamps = std::make_unique<std::uint64_t[]>(2 * words);
  array.region = {.space = MemorySpace::lds,
                  .tracking = Tracking::races,
                  .element_bytes = declaration.element_bytes,
                  .base = storage_.get() + offset,
                  .count = count,
                  .starts_unwritten = true,
                  .writers = array.stamps.get(),
                  .readers = array.stamps.get() + words,
                  .name = declaration.name};
  return array;
}

}  // namespace host
}  // namespace zerodiff::device
