#include "device/host/memory_region.h"

#include <atomic>
#include <bit>
#include <string_view>
#include <type_traits>

#include "device/host/access_rules.h"
#include "device/host/work_item.h"

namespace zerodiff::device {
inline namespace host {
namespace {

bool is_lds(const MemoryRegion& region) {
  return region.space == MemorySpace::lds;
}

// "buffer q, element 5", "LDS array tile, elements 4..7"
std::string describe(const MemoryRegion& region, std::int64_t first, std::int64_t count) {
  std::string text = is_lds(region) ? "LDS array " : "buffer ";
  text += region.name + (count == 1 ? ", element " : ", elements ") + std::to_string(first);
  if (count != 1) text += ".." + std::to_string(first + count - 1);
  return text;
}

std::string_view verb(Access access) {
  return access == Access::read ? "read of " : "write to ";
}

// The bits of an element as an unsigned number.
template <class T>
std::uint64_t bits_of(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(value);
  }
}

template <class T>
std::string hex_of(T value) {
  std::string text(2 * sizeof(T), '0');
  std::uint64_t bits = bits_of(value);
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, bits >>= 4) {
    *digit = "0123456789abcdef"[bits & 15];
  }
  return text.insert(0, "0x");
}

std::string name_of_other(Stamp other) {
  return same_item(other, item_stamp) ? "several others" : name_of_item(other);
}

[[noreturn, gnu::cold]] void raise_unwritten(const MemoryRegion& region, std::int64_t element,
                                             CallSite site) {
  raise_fault(is_lds(region) ? FaultKind::lds_unwritten_read : FaultKind::unwritten_read, site,
              "read of " + describe(region, element, 1) + ", which nobody has written");
}

[[noreturn, gnu::cold]] void raise_race(const MemoryRegion& region, std::int64_t element,
                                        Access mine, Stamp other, CallSite site) {
  std::string text{verb(mine)};
  text += describe(region, element, 1) + ", also ";
  text += mine == Access::read ? "written by " : "read by ";
  text += name_of_other(other) + " with no barrier between";
  raise_fault(is_lds(region) ? FaultKind::lds_race : FaultKind::buffer_race, site, text);
}

template <class T>
[[noreturn, gnu::cold]] void raise_write_conflict(const MemoryRegion& region, std::int64_t element,
                                                  Stamp writers, T before, T value, CallSite site) {
  std::string text = "write of " + hex_of(value) + " to " + describe(region, element, 1);
  text += ", where " + name_of_other(writers) + " wrote " + hex_of(before);
  text += is_lds(region) ? " with no barrier between" : " in this launch";
  raise_fault(is_lds(region) ? FaultKind::lds_race : FaultKind::write_conflict, site, text);
}

// LDS belongs to one OS thread. For buffers a reader first notes itself and then looks at the
// writers, and a writer first takes the element and then looks at the readers, all sequentially
// consistent: of a reader and a writer that race, at least one sees the other.
template <MemorySpace kSpace>
void note_reader(std::uint64_t& readers) {
  if constexpr (kSpace == MemorySpace::lds) {
    readers = with_reader<kSpace>(readers, item_stamp);
    return;
  }
  const std::atomic_ref<std::uint64_t> word(readers);
  Stamp old = word.load(std::memory_order_relaxed);
  for (;;) {
    const Stamp next = with_reader<kSpace>(old, item_stamp);
    if (next == old || word.compare_exchange_weak(old, next)) return;
  }
}

template <MemorySpace kSpace>
Stamp load_writers(std::uint64_t& writers) {
  if constexpr (kSpace == MemorySpace::lds) return writers;
  const std::atomic_ref<std::uint64_t> word(writers);
  Stamp value = word.load();
  while ((value & kBusy) != 0) value = word.load();
  return value;
}

// Takes the element for a write; returns the word that was there.
template <MemorySpace kSpace>
Stamp lock(std::uint64_t& writers) {
  if constexpr (kSpace == MemorySpace::lds) return writers;
  const std::atomic_ref<std::uint64_t> word(writers);
  Stamp old = word.load(std::memory_order_relaxed) & ~kBusy;
  while (!word.compare_exchange_weak(old, old | kBusy)) old &= ~kBusy;
  return old;
}

template <MemorySpace kSpace>
void unlock(std::uint64_t& writers, Stamp word) {
  if constexpr (kSpace == MemorySpace::lds) {
    writers = word;
  } else {
    std::atomic_ref<std::uint64_t>(writers).store(word, std::memory_order_release);
  }
}

template <MemorySpace kSpace, class T>
void write_element(const MemoryRegion& region, std::int64_t element, T value, CallSite site) {
  std::uint64_t& word = region.writers[element];
  const std::atomic_ref<T> place(reinterpret_cast<T*>(region.base)[element]);
  const Stamp self = item_stamp;
  const Stamp writers = lock<kSpace>(word);
  const Stamp readers = std::atomic_ref<std::uint64_t>(region.readers[element]).load();
  const T before = place.load(std::memory_order_relaxed);
  const bool has_value = !region.starts_unwritten || is_written<kSpace>(writers, self);
  const bool changes = !has_value || bits_of(before) != bits_of(value);
  if (write_collides_with_writers<kSpace>(writers, self, changes)) [[unlikely]] {
    unlock<kSpace>(word, writers);
    raise_write_conflict(region, element, writers, before, value, site);
  }
  place.store(value, std::memory_order_relaxed);
  unlock<kSpace>(word, with_writer<kSpace>(writers, self, changes));
  if (write_collides_with_readers<kSpace>(readers, self, changes)) [[unlikely]] {
    raise_race(region, element, Access::write, readers, site);
  }
}

template <MemorySpace kSpace>
void read_element(const MemoryRegion& region, std::int64_t element, CallSite site) {
  const bool races = region.tracking == Tracking::races;
  if (races) note_reader<kSpace>(region.readers[element]);
  const Stamp writers = load_writers<kSpace>(region.writers[element]);
  if (region.starts_unwritten && !is_written<kSpace>(writers, item_stamp)) [[unlikely]] {
    raise_unwritten(region, element, site);
  }
  if (races && read_collides<kSpace>(writers, item_stamp)) [[unlikely]] {
    raise_race(region, element, Access::read, writers, site);
  }
}

}  // namespace

const MemoryRegion& absent_buffer() {
  static const MemoryRegion region{.name = "(absent)"};
  return region;
}

void raise_out_of_bounds(const MemoryRegion& region, std::int64_t first, std::int64_t count,
                         Access access, CallSite site) {
  std::string text{verb(access)};
  text += describe(region, first, count) + " of " + std::to_string(region.count);
  raise_fault(is_lds(region) ? FaultKind::lds_out_of_bounds : FaultKind::out_of_bounds, site, text);
}

void raise_misaligned(const MemoryRegion& region, std::int64_t first, Access access,
                      CallSite site) {
  std::string text = "16-byte ";
  text += verb(access);
  text += describe(region, first, 16 / std::int64_t{region.element_bytes});
  text += ", at byte offset " + std::to_string(first * region.element_bytes);
  raise_fault(FaultKind::misaligned_access, site, text);
}

void note_read(const MemoryRegion& region, std::int64_t first, std::int64_t count, CallSite site) {
  for (std::int64_t element = first; element < first + count; ++element) {
    if (is_lds(region)) {
      read_element<MemorySpace::lds>(region, element, site);
    } else {
      read_element<MemorySpace::buffer>(region, element, site);
    }
  }
}

template <class T>
void tracked_write(const MemoryRegion& region, std::int64_t first, std::int64_t count,
                   const T* values, CallSite site) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_lds(region)) {
      write_element<MemorySpace::lds>(region, first + i, values[i], site);
    } else {
      write_element<MemorySpace::buffer>(region, first + i, values[i], site);
    }
  }
}

#define ZERODIFF_TRACKED_WRITE(T)                                                           \
  template void tracked_write<T>(const MemoryRegion&, std::int64_t, std::int64_t, const T*, \
                                 CallSite);
ZERODIFF_TRACKED_WRITE(std::int8_t)
ZERODIFF_TRACKED_WRITE(std::int16_t)
ZERODIFF_TRACKED_WRITE(std::int32_t)
ZERODIFF_TRACKED_WRITE(std::int64_t)
ZERODIFF_TRACKED_WRITE(std::uint8_t)
ZERODIFF_TRACKED_WRITE(std::uint16_t)
ZERODIFF_TRACKED_WRITE(std::uint32_t)
ZERODIFF_TRACKED_WRITE(std::uint64_t)
ZERODIFF_TRACKED_WRITE(float)
ZERODIFF_TRACKED_WRITE(double)

}  // namespace host
}  // namespace zerodiff::device
