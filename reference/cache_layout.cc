#include "reference/cache_layout.h"

namespace zerodiff::reference {
namespace {

// A block of block_contiguous storage holds its K pages, then its V pages.
constexpr std::int64_t kRebasedBlock = 2 * kBlockSize;

PagedLayout layout_of(const LayerCall& call, bool is_value) {
  const bool joined = call.config.kv_storage == KvStorage::block_contiguous;
  PagedLayout layout;
  layout.num_kv_heads = call.config.num_kv_heads;
  layout.vector_width = call.cache_vector_width();
  layout.base_page = joined && is_value ? kPagesPerBlock : 0;
  layout.is_value = is_value;
  return layout;
}

}  // namespace

std::int64_t PagedLayout::element(std::int64_t page, std::int64_t head, std::int64_t offset,
                                  std::int64_t d) const {
  const std::int64_t x = vector_width;
  const std::int64_t plane = (base_page + page) * num_kv_heads + head;
  if (is_value) {
    return (plane * (kPageSize / x) + offset / x) * kHeadDim * x + d * x + offset % x;
  }
  return (plane * (kHeadDim / x) + d / x) * kPageSize * x + offset * x + d % x;
}

PagedElement element_at(const PagedLayout& layout, std::int64_t element_index) {
  const std::int64_t x = layout.vector_width;
  const std::int64_t plane = element_index / (kPageSize * kHeadDim);
  const std::int64_t inner = element_index % (kPageSize * kHeadDim);
  PagedElement element;
  element.page = plane / layout.num_kv_heads - layout.base_page;
  element.head = plane % layout.num_kv_heads;
  if (layout.is_value) {
    element.offset = inner / (kHeadDim * x) * x + inner % x;
    element.dim = inner % (kHeadDim * x) / x;
  } else {
    element.offset = inner % (kPageSize * x) / x;
    element.dim = inner / (kPageSize * x) * x + inner % x;
  }
  return element;
}

PagedLayout k_layout(const LayerCall& call) {
  return layout_of(call, false);
}
PagedLayout v_layout(const LayerCall& call) {
  return layout_of(call, true);
}

std::int64_t rebase_slot(std::int64_t slot) {
  if (slot < 0) return slot;
  return slot / kBlockSize * kRebasedBlock + slot % kBlockSize;
}

std::int64_t unrebase_slot(std::int64_t rebased) {
  if (rebased < 0) return rebased;
  return rebased / kRebasedBlock * kBlockSize + rebased % kBlockSize;
}

PagePlace page_of(std::int64_t slot) {
  if (slot < 0) return {};
  return {slot / kPageSize, slot % kPageSize};
}

}  // namespace zerodiff::reference
