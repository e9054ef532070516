#include "compare/written_elements.h"

#include <cassert>

#include "reference/slot_mapping.h"

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

std::int64_t invert(const std::vector<std::int64_t>& slot_of_row,
                    std::vector<std::int64_t>& row_of_slot) {
  std::int64_t stored = 0;
  for (std::size_t row = 0; row < slot_of_row.size(); ++row) {
    if (slot_of_row[row] < 0) continue;
    row_of_slot.at(at(slot_of_row[row])) = static_cast<std::int64_t>(row);
    ++stored;
  }
  return stored;
}

}  // namespace

WrittenSlots written_slots(const LayerCall& call) {
  reference::SlotMapping mapping = reference::map_slots(call);
  if (call.config.kv_storage == KvStorage::block_contiguous) {
    for (std::int64_t& slot : mapping.kv) slot = reference::unrebase_slot(slot);
  }
  WrittenSlots written;
  written.kv_slot_of_row = std::move(mapping.kv);
  written.row_of_kv_slot.assign(at(call.num_slots()), -1);
  written.kv_rows = invert(written.kv_slot_of_row, written.row_of_kv_slot);
  written.index_slot_of_row = std::move(mapping.index);
  written.index_slot_of_row.resize(at(call.capacity()), -1);
  written.row_of_index_slot.assign(at(call.num_slots()), -1);
  written.index_rows = invert(written.index_slot_of_row, written.row_of_index_slot);
  return written;
}

std::optional<CacheOutput> cache_output(std::string_view output) {
  if (output == "k_cache") return CacheOutput::k_cache;
  if (output == "v_cache") return CacheOutput::v_cache;
  if (output == "kv_cache") return CacheOutput::kv_cache;
  if (output == "index_cache") return CacheOutput::index_cache;
  return std::nullopt;
}

CacheGeometry::CacheGeometry(const LayerCall& call, CacheOutput output)
    : output_(output),
      joined_(call.config.kv_storage == KvStorage::block_contiguous),
      layouts_{reference::k_layout(call), reference::v_layout(call)} {}

std::int64_t CacheGeometry::plane_of(std::int64_t flat_index) const {
  if (output_ == CacheOutput::v_cache) return kValuePlane;
  if (output_ != CacheOutput::kv_cache) return kKeyPlane;
  const std::int64_t stored_page = flat_index / layout(kKeyPlane).page_elements();
  return stored_page / kPagesPerBlock % 2 == 0 ? kKeyPlane : kValuePlane;
}

CacheElement CacheGeometry::at(std::int64_t flat_index) const {
  CacheElement element;
  if (output_ == CacheOutput::index_cache) {
    element.slot = flat_index / kHeadDim;
    element.dim = flat_index % kHeadDim;
    element.offset = element.slot % kBlockSize;
  } else {
    element.plane = plane_of(flat_index);
    const auto place = reference::element_at(layout(element.plane), flat_index);
    const std::int64_t mapped = place.page * kPageSize + place.offset;
    element.slot = joined_ ? reference::unrebase_slot(mapped) : mapped;
    element.page = place.page;
    element.offset = place.offset;
    element.head = place.head;
    element.dim = place.dim;
  }
  element.block = element.slot / kBlockSize;
  return element;
}

std::int64_t CacheGeometry::flat_index(const CacheElement& element) const {
  if (output_ == CacheOutput::index_cache) return element.slot * kHeadDim + element.dim;
  const std::int64_t mapped = joined_ ? reference::rebase_slot(element.slot) : element.slot;
  const reference::PagePlace place = reference::page_of(mapped);
  return layout(element.plane).element(place.page, element.head, place.offset, element.dim);
}

std::int64_t CacheGeometry::slot_elements() const {
  return output_ == CacheOutput::index_cache ? kHeadDim : layout(kKeyPlane).num_kv_heads * kHeadDim;
}

std::int64_t CacheGeometry::page_elements() const {
  return output_ == CacheOutput::index_cache ? kHeadDim : layout(kKeyPlane).page_elements();
}

CacheRegions::CacheRegions(const LayerCall& call, const WrittenSlots& written, CacheOutput output)
    : geometry_(call, output),
      row_of_slot_(output == CacheOutput::index_cache ? written.row_of_index_slot
                                                      : written.row_of_kv_slot),
      rows_(output == CacheOutput::index_cache ? written.index_rows : written.kv_rows),
      written_offsets_(row_of_slot_.size() / kPageSize) {
  for (std::size_t slot = 0; slot < row_of_slot_.size(); ++slot) {
    if (row_of_slot_[slot] < 0) continue;
    written_offsets_[slot / kPageSize] |= static_cast<std::uint16_t>(1U << (slot % kPageSize));
  }
}

std::int64_t CacheRegions::written_elements() const {
  const std::int64_t planes = geometry_.output() == CacheOutput::kv_cache ? 2 : 1;
  return rows_ * geometry_.slot_elements() * planes;
}

std::int64_t CacheRegions::run(std::int64_t flat_index, const CacheElement& element) const {
  const std::int64_t page = geometry_.page_elements();
  const std::uint16_t offsets = written_offsets_[at(element.slot / kPageSize)];
  const bool alike = offsets == 0 || offsets == 0xFFFF;
  if (alike || geometry_.output() == CacheOutput::index_cache) return page - flat_index % page;
  // Neighbours in K are dims of one token, in V tokens of one dim.
  const std::int64_t x = geometry_.vector_width();
  return element.plane == kKeyPlane ? x - element.dim % x : 1;
}

}  // namespace zerodiff::compare
