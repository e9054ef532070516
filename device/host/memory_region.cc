#include "device/host/memory_region.h"

#include <atomic>
#include <cstring>

#include "device/host/work_item.h"

namespace zerodiff::device {
inline namespace host {
namespace {

std::string describe(const MemoryRegion& region, std::int64_t first, std::int64_t count) {
  std::string text = region.space == MemorySpace::lds ? "LDS array " : "buffer ";
  text += region.name + (count == 1 ? ", element " : ", elements ") + std::to_string(first);
  if (count != 1) text += ".." + std::to_string(first + count - 1);
  return text;
}

std::string_view verb(Access access) {
  return access == Access::read ? "read of " : "write to ";
}

bool is_lds(const MemoryRegion& region) {
  return region.space == MemorySpace::lds;
}

[[noreturn]] void raise_unwritten(const MemoryRegion& region, std::int64_t element, CallSite site) {
  raise_fault(is_lds(region) ? FaultKind::lds_unwritten_read : FaultKind::unwritten_read, site,
              "read of " + describe(region, element, 1) + ", which nobody has written");
}

[[noreturn]] void raise_race(const MemoryRegion& region, std::int64_t element, Access mine,
                             std::string_view theirs, Stamp other, CallSite site) {
  std::string text{verb(mine)};
  text += describe(region, element, 1) + ", also " + std::string(theirs) + " by ";
  text += same_item(other, item_stamp) ? "several others" : name_of_item(other);
  text += " with no barrier between";
  raise_fault(is_lds(region) ? FaultKind::lds_race : FaultKind::buffer_race, site, text);
}

std::string hex_of(const std::byte* value, std::uint32_t bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (std::uint32_t i = bytes; i-- > 0;) {  // little-endian
    text += kDigits[std::to_integer<unsigned>(value[i]) >> 4];
    text += kDigits[std::to_integer<unsigned>(value[i]) & 15];
  }
  return text;
}

// Whether the word belongs to an access that the running work-group's launch (for LDS: the group
// itself) made.
bool is_current(const MemoryRegion& region, Stamp word) {
  return same_epoch(word, item_stamp) && (!is_lds(region) || same_block(word, item_stamp));
}

// Whether an element has a value: for LDS, one of this group's.
bool is_written(const MemoryRegion& region, Stamp writers) {
  if (!region.starts_unwritten) return true;
  return is_lds(region) ? is_current(region, writers) : writers != 0;
}

// Adds the running work-item to an element's readers.
void note_reader(const MemoryRegion& region, std::uint64_t& readers) {
  const std::atomic_ref<std::uint64_t> word(readers);
  Stamp old = word.load(std::memory_order_relaxed);
  for (;;) {
    Stamp next = item_stamp;
    if (is_current(region, old)) {
      next |= old & kSeveralBlocks;
      if (!same_block(old, item_stamp)) {
        next |= kSeveralBlocks;
      } else if (same_interval(old, item_stamp)) {
        if (same_item(old, item_stamp) || (old & kSeveralThreads) != 0) return;
        next |= kSeveralThreads;
      }
    }
    if (word.compare_exchange_weak(old, next)) return;
  }
}

// A reader first notes itself, then looks at the writers; a writer first takes the element, then
// looks at the readers. So of a reader and a writer that race at least one sees the other.
Stamp load_writers(std::uint64_t& writers) {
  const std::atomic_ref<std::uint64_t> word(writers);
  Stamp value = word.load();
  while ((value & kBusy) != 0) value = word.load();
  return value;
}

// Takes the element for a write. Returns the old word without kBusy.
Stamp lock(std::atomic_ref<std::uint64_t> word) {
  Stamp old = word.load(std::memory_order_relaxed) & ~kBusy;
  while (!word.compare_exchange_weak(old, (old & kStampMask) | kBusy)) old &= ~kBusy;
  return old;
}

bool races_with_readers(const MemoryRegion& region, Stamp readers) {
  if (!is_current(region, readers)) return false;
  if ((readers & kSeveralBlocks) != 0 || !same_block(readers, item_stamp)) return true;
  if (!same_interval(readers, item_stamp)) return false;
  return (readers & kSeveralThreads) != 0 || !same_item(readers, item_stamp);
}

// Of two writers of a buffer element in one launch the last is a matter of luck, or of barriers
// that a reader of the kernel must find; for LDS a barrier between them is the normal case.
bool conflicts_with_writers(const MemoryRegion& region, Stamp writers, bool changes) {
  if (!is_current(region, writers)) return false;
  if (is_lds(region) && !same_interval(writers, item_stamp)) return false;
  if ((writers & kShared) != 0) return changes;
  return !same_item(writers, item_stamp) && (changes || (writers & kRewritten) != 0);
}

Stamp writer_word(const MemoryRegion& region, Stamp old, bool changes) {
  Stamp word = item_stamp | (changes ? kChanged : 0);
  if (!is_current(region, old) || (is_lds(region) && !same_interval(old, item_stamp))) return word;
  word |= old & (kShared | kRewritten | kChanged);
  if (!same_item(old, item_stamp)) {
    word |= kShared;
  } else if (changes) {
    word |= kRewritten;
  }
  return word;
}

[[noreturn]] void raise_write_conflict(const MemoryRegion& region, std::int64_t element,
                                       Stamp writers, const std::string& before,
                                       const std::byte* value, CallSite site) {
  std::string text = "write of " + hex_of(value, region.element_bytes) + " to ";
  text += describe(region, element, 1) + ", where ";
  text += same_item(writers, item_stamp) ? "several others" : name_of_item(writers);
  text += " wrote " + before + (is_lds(region) ? " with no barrier between" : " in this launch");
  raise_fault(is_lds(region) ? FaultKind::lds_race : FaultKind::write_conflict, site, text);
}

void store_relaxed(std::byte* place, const std::byte* value, std::uint32_t bytes) {
  const auto store = [&]<class T>(T bits) {
    std::memcpy(&bits, value, sizeof(bits));
    std::atomic_ref<T>(*reinterpret_cast<T*>(place)).store(bits, std::memory_order_relaxed);
  };
  switch (bytes) {
    case 1:
      return store(std::uint8_t{});
    case 2:
      return store(std::uint16_t{});
    case 4:
      return store(std::uint32_t{});
    default:
      return store(std::uint64_t{});
  }
}

void write_element(const MemoryRegion& region, std::int64_t element, const std::byte* value,
                   CallSite site) {
  const std::atomic_ref<std::uint64_t> word(region.writers[element]);
  std::byte* place = region.base + element * region.element_bytes;
  const Stamp writers = lock(word);
  const Stamp readers = std::atomic_ref<std::uint64_t>(region.readers[element]).load();
  const bool changes =
      !is_written(region, writers) || std::memcmp(place, value, region.element_bytes) != 0;
  if (conflicts_with_writers(region, writers, changes)) {
    const std::string before = hex_of(place, region.element_bytes);
    word.store(writers);
    raise_write_conflict(region, element, writers, before, value, site);
  }
  store_relaxed(place, value, region.element_bytes);
  word.store(writer_word(region, writers, changes), std::memory_order_release);
  if (changes && races_with_readers(region, readers)) {
    raise_race(region, element, Access::write, "read", readers, site);
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
  const std::int64_t bytes = 16 / std::int64_t{region.element_bytes};
  std::string text = "16-byte ";
  text += verb(access);
  text += describe(region, first, bytes) + ", at byte offset " +
          std::to_string(first * region.element_bytes);
  raise_fault(FaultKind::misaligned_access, site, text);
}

void note_read(const MemoryRegion& region, std::int64_t first, std::int64_t count, CallSite site) {
  for (std::int64_t element = first; element < first + count; ++element) {
    const bool races = region.tracking == Tracking::races;
    if (races) note_reader(region, region.readers[element]);
    const Stamp writers = load_writers(region.writers[element]);
    if (!is_written(region, writers)) raise_unwritten(region, element, site);
    if (!races || !is_current(region, writers) || (writers & kChanged) == 0) continue;
    if (ordered_by_barrier(writers, item_stamp) || same_item(writers, item_stamp)) continue;
    raise_race(region, element, Access::read, "written", writers, site);
  }
}

void tracked_write(const MemoryRegion& region, std::int64_t first, std::int64_t count,
                   const void* values, CallSite site) {
  const auto* bytes = static_cast<const std::byte*>(values);
  for (std::int64_t i = 0; i < count; ++i) {
    write_element(region, first + i, bytes + i * region.element_bytes, site);
  }
}

}  // namespace host
}  // namespace zerodiff::device
