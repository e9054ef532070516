// Which rows write which slots of the caches, by the slot mapping in force (numerics.md section 7),
// and where an element of a cache output stands.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fixtures/layer_call.h"
#include "reference/cache_layout.h"

namespace zerodiff::compare {

// Slots are as slot_mapping holds them, before any rebase: [0, 128*NB). -1 stands for a slot that
// no row writes and for a row that stores nothing.
struct WrittenSlots {
  std::vector<std::int64_t> row_of_kv_slot;     // [128*NB]
  std::vector<std::int64_t> row_of_index_slot;  // [128*NB]; all -1 with skip_index_branch
  std::vector<std::int64_t> kv_slot_of_row;     // [T]
  std::vector<std::int64_t> index_slot_of_row;  // [T]; all -1 with skip_index_branch
  std::int64_t kv_rows = 0;                     // rows that store K and V
  std::int64_t index_rows = 0;                  // rows that store index K
};

// Throws Error (kInput) for a graph-safe buffer that reference::map_slots rejects.
WrittenSlots written_slots(const LayerCall& call);

enum class CacheOutput : std::uint8_t { k_cache, v_cache, kv_cache, index_cache };

// The cache among the names of kOutputFields, if it is one.
std::optional<CacheOutput> cache_output(std::string_view output);

inline constexpr std::int64_t kKeyPlane = 0;
inline constexpr std::int64_t kValuePlane = 1;

struct CacheElement {
  std::int64_t plane = kKeyPlane;
  std::int64_t slot = 0;    // before any rebase
  std::int64_t page = -1;   // the page id that the (rebased) slot gives; -1 in the index cache
  std::int64_t offset = 0;  // within the page; within the block in the index cache
  std::int64_t block = 0;   // of the pool
  std::int64_t head = 0;    // kv head; 0 in the index cache
  std::int64_t dim = 0;
};

// Geometry of one cache output of a call (numerics.md section 8).
class CacheGeometry {
 public:
  CacheGeometry(const LayerCall& call, CacheOutput output);

  CacheElement at(std::int64_t flat_index) const;
  // The inverse; reads plane, slot, head and dim.
  std::int64_t flat_index(const CacheElement& element) const;

  CacheOutput output() const { return output_; }
  // Elements of one slot over all heads, one plane.
  std::int64_t slot_elements() const;
  // Elements of one page over all heads; of one slot in the index cache.
  std::int64_t page_elements() const;
  // x: elements in 16 bytes of the K/V cache.
  std::int64_t vector_width() const { return layouts_[0].vector_width; }

 private:
  const reference::PagedLayout& layout(std::int64_t plane) const {
    return layouts_[static_cast<std::size_t>(plane)];
  }
  std::int64_t plane_of(std::int64_t flat_index) const;

  CacheOutput output_;
  bool joined_;
  std::array<reference::PagedLayout, 2> layouts_;  // K, V
};

// Splits a cache output into written and untouched elements.
class CacheRegions {
 public:
  // `written` must outlive it.
  CacheRegions(const LayerCall& call, const WrittenSlots& written, CacheOutput output);

  const CacheGeometry& geometry() const { return geometry_; }
  const std::vector<std::int64_t>& row_of_slot() const { return row_of_slot_; }
  bool is_written(const CacheElement& element) const {
    return row_of_slot_[static_cast<std::size_t>(element.slot)] >= 0;
  }
  std::int64_t written_elements() const;

  // How many elements from `flat_index` on, which is `element`, are surely written or surely
  // untouched like it; at least 1, never past the page.
  std::int64_t run(std::int64_t flat_index, const CacheElement& element) const;

 private:
  CacheGeometry geometry_;
  const std::vector<std::int64_t>& row_of_slot_;
  std::int64_t rows_;
  std::vector<std::uint16_t> written_offsets_;  // one bit a token of each page of 16 slots
};

}  // namespace zerodiff::compare
