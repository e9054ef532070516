// Where an element of the paged caches lives, and which element lives somewhere (numerics.md
// sections 7 and 8). All arithmetic is 64-bit.
#pragma once

#include <cstdint>

#include "fixtures/layer_call.h"

namespace zerodiff::reference {

// A place inside a page pool.
struct PagePlace {
  std::int64_t page = -1;
  std::int64_t offset = -1;  // token within the page, 0..15
};

// Geometry of one paged K or V plane. For block_contiguous storage the plane's pages count over
// both halves of every block, and V starts 8 pages (base_page) later.
struct PagedLayout {
  std::int64_t num_kv_heads = 0;
  std::int64_t vector_width = 0;  // x: elements in 16 bytes
  std::int64_t base_page = 0;     // 0, or 8 for V in block_contiguous storage
  bool is_value = false;          // V layout instead of K layout

  // Element index, in the tensor, of dim `d` of (page, head, offset).
  std::int64_t element(std::int64_t page, std::int64_t head, std::int64_t offset,
                       std::int64_t d) const;

  // Elements of one page, all heads.
  std::int64_t page_elements() const { return num_kv_heads * kPageSize * kHeadDim; }
};

struct PagedElement {
  std::int64_t page = 0;  // relative to base_page: the page id that a slot gives
  std::int64_t head = 0;
  std::int64_t offset = 0;
  std::int64_t dim = 0;
};
// The inverse of PagedLayout::element, for an index inside the plane.
PagedElement element_at(const PagedLayout& layout, std::int64_t element_index);

PagedLayout k_layout(const LayerCall& call);
PagedLayout v_layout(const LayerCall& call);

// slot' of numerics.md section 7: negative slots stay negative.
std::int64_t rebase_slot(std::int64_t slot);
// The slot that rebases to slot', whichever half of the block slot' is in.
std::int64_t unrebase_slot(std::int64_t rebased);

// Page and offset of a (rebased, if the storage is block_contiguous) slot; {-1,-1} if negative.
PagePlace page_of(std::int64_t slot);

}  // namespace zerodiff::reference
