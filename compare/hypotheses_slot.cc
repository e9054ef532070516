// Hypotheses about slots and the addresses made of them (docs/faults.md, 1.3, and
// `index-slot-map-swapped` of section 2), and about stores that never happen.
#include <algorithm>

#include "compare/hypothesis.h"
#include "reference/slot_mapping.h"

namespace zerodiff::compare {
namespace {

using reference::PagedLayout;
using reference::PagePlace;

constexpr const char* kStage = "slot_mapping";

using SlotOf = std::function<std::int64_t(const HeadContract&, const HeadAt&)>;

bool joined(const HeadContract& contract) {
  return contract.call().config.kv_storage == KvStorage::block_contiguous;
}

// Where a slot before any rebase is stored; -1 for a negative one.
std::int64_t place_of_slot(const HeadContract& contract, const HeadAt& at, std::int64_t slot,
                           std::int64_t dim) {
  if (slot < 0) return -1;
  if (at.branch == Branch::index_k) return slot * kHeadDim + dim;
  const PagePlace place =
      reference::page_of(joined(contract) ? reference::rebase_slot(slot) : slot);
  return contract.layout(at.branch).element(place.page, at.head, place.offset, dim);
}

// The contract's stores by other slots.
Mutation by_slot(SlotOf slot_of) {
  return {.place = [slot_of = std::move(slot_of)](const HeadContract& contract, const HeadAt& at,
                                                  std::int64_t dim) {
    return place_of_slot(contract, at, slot_of(contract, at), dim);
  }};
}

// The slot before any rebase, or -1.
std::int64_t slot_of_row(const HeadContract& contract, const HeadAt& at) {
  const WrittenSlots& written = contract.written();
  const auto& slots =
      at.branch == Branch::index_k ? written.index_slot_of_row : written.kv_slot_of_row;
  return slots[static_cast<std::size_t>(at.token)];
}

// The contract's slot, and `other` for rows that store nothing.
SlotOf or_else(std::function<std::int64_t(const HeadContract&)> other) {
  return [other = std::move(other)](const HeadContract& contract, const HeadAt& at) {
    const std::int64_t slot = slot_of_row(contract, at);
    return slot >= 0 ? slot : other(contract);
  };
}

// Rows of slot -1 stored by an address that is computed from -1 all the same.
using AddressOfMinusOne = std::int64_t (*)(const HeadContract&, const HeadAt&, std::int64_t dim);

Mutation unguarded(AddressOfMinusOne address) {
  return {.place = [address](const HeadContract& contract, const HeadAt& at, std::int64_t dim) {
    const std::int64_t flat = contract.place(at, dim);
    return slot_of_row(contract, at) >= 0 ? flat : address(contract, at, dim);
  }};
}

// Page and offset rounded down, without wrapping round: page -1, offset 15.
std::int64_t before_the_first_page(const HeadContract& contract, const HeadAt& at,
                                   std::int64_t dim) {
  if (at.branch == Branch::index_k) return -1;
  return contract.layout(at.branch).element(-1, at.head, kPageSize - 1, dim);
}

// Page and offset rounded towards zero: page 0, offset -1.
std::int64_t before_the_page(const HeadContract& contract, const HeadAt& at, std::int64_t dim) {
  if (at.branch == Branch::index_k) return -1;
  PagedLayout layout = contract.layout(at.branch);
  return layout.element(0, at.head, 0, dim) - (layout.is_value ? 1 : layout.vector_width);
}

// Page -1 taken from the end of the pool.
std::int64_t in_the_last_page(const HeadContract& contract, const HeadAt& at, std::int64_t dim) {
  if (at.branch == Branch::index_k) return -1;
  PagedLayout layout = contract.layout(at.branch);
  layout.base_page = 0;
  const std::int64_t pages = contract.stored_elements(at.branch) / layout.page_elements();
  return layout.element(pages - 1, at.head, kPageSize - 1, dim);
}

using Add = std::function<void(const char*, std::string, Mutation)>;

void add_negative_slots(const Add& add) {
  add("slot-neg1-wraps-last", "rows of slot -1 stored at the last slot",
      by_slot(or_else([](const HeadContract& c) { return c.call().num_slots() - 1; })));
  add("slot-neg1-wraps-last", "rows of slot -1 stored in the last page",
      unguarded(in_the_last_page));
  add("slot-pad-to-zero", "rows of slot -1 stored at slot 0",
      by_slot(or_else([](const HeadContract&) { return std::int64_t{0}; })));
  add("slot-neg-oob", "rows of slot -1 stored before the first page",
      unguarded(before_the_first_page));
  add("slot-neg-oob", "rows of slot -1 stored one token before the first page",
      unguarded(before_the_page));
}

// Page and offset from a page size other than 16.
Mutation other_page_size(std::int64_t size) {
  return {.place = [size](const HeadContract& contract, const HeadAt& at,
                          std::int64_t dim) -> std::int64_t {
    const std::int64_t slot = contract.mapped_slot(at.branch, at.token);
    if (slot < 0) return -1;
    return contract.layout(at.branch).element(slot / size, at.head, slot % size, dim);
  }};
}

// block_table[r][pos / column] * block + pos % offset, for the rows that store.
SlotOf from_table(std::int64_t column, std::int64_t block, std::int64_t offset) {
  return [=](const HeadContract& contract, const HeadAt& at) -> std::int64_t {
    const LayerCall& call = contract.call();
    if (slot_of_row(contract, at) < 0) return -1;
    const std::int64_t position = contract.position(at.token);
    const std::int64_t columns = call.block_table.dim(1);
    if (position / column >= columns) return -1;
    const std::int64_t request = reference::request_of_row(call, at.token);
    const auto table = call.block_table.as<std::int32_t>();
    const std::int64_t entry =
        table[static_cast<std::size_t>(request * columns + position / column)];
    return entry * block + position % offset;
  };
}

// Rebased as if blocks held another number of tokens.
Mutation other_rebase(std::int64_t block) {
  return {.place = [block](const HeadContract& contract, const HeadAt& at,
                           std::int64_t dim) -> std::int64_t {
    const std::int64_t slot = slot_of_row(contract, at);
    if (slot < 0) return -1;
    const PagePlace place = reference::page_of(2 * (slot / block) * block + slot % block);
    return contract.layout(at.branch).element(place.page, at.head, place.offset, dim);
  }};
}

// Rows that store nothing, stored by what their entry of the mapping says.
Mutation by_stale_entries() {
  return {.place = [](const HeadContract& contract, const HeadAt& at,
                      std::int64_t dim) -> std::int64_t {
    const LayerCall& call = contract.call();
    if (slot_of_row(contract, at) >= 0) return contract.place(at, dim);
    const bool buffered = at.branch != Branch::index_k && reference::uses_graph_buffer(call);
    const Tensor& mapping = buffered                       ? call.page16_slot_mapping
                            : at.branch == Branch::index_k ? call.index_slot_mapping
                                                           : call.slot_mapping;
    if (!mapping.present()) return -1;
    const std::int64_t slot = mapping.as<std::int64_t>()[static_cast<std::size_t>(at.token)];
    if (slot < 0) return -1;
    return place_of_slot(contract, at, buffered ? reference::unrebase_slot(slot) : slot, dim);
  }};
}

void add_block_sizes(const HeadContract& contract, Branch branch, const Add& add) {
  for (const std::int64_t size : {4, 8, 32, 64, 128, 256, 640}) {
    const std::string text = std::to_string(size);
    if (branch != Branch::index_k) {
      add("slot-block-size-mismatch", "page and offset from pages of " + text + " tokens",
          other_page_size(size));
    }
    if (!contract.call().has_attention_metadata() || size == kBlockSize) continue;
    add("slot-block-size-mismatch", "slots from blocks of " + text + " tokens",
        by_slot(from_table(size, size, size)));
  }
  if (contract.scaled(branch) && joined(contract)) {
    for (const std::int64_t size : {16, 32, 64, 256}) {
      add("slot-block-size-mismatch", "rebased in blocks of " + std::to_string(size) + " tokens",
          other_rebase(size));
    }
  }
  if (!contract.call().has_attention_metadata()) return;
  add("slot-block-size-mismatch", "slots from blocks of 16 tokens",
      by_slot(from_table(kPageSize, kPageSize, kPageSize)));
  add("slot-block-size-mismatch", "block ids counted in pages of 16 tokens",
      by_slot(from_table(kBlockSize, kPageSize, kBlockSize)));
  add("slot-block-size-mismatch", "block ids counted in pages of 16 tokens, offsets in pages",
      by_slot(from_table(kBlockSize, kPageSize, kPageSize)));
  add("slot-block-size-mismatch", "offsets in a page of 16 tokens, not in the block",
      by_slot(from_table(kBlockSize, kBlockSize, kPageSize)));
}

std::int64_t other_mapping_slot(const HeadContract& contract, const HeadAt& at) {
  const WrittenSlots& written = contract.written();
  const auto& slots =
      at.branch == Branch::index_k ? written.kv_slot_of_row : written.index_slot_of_row;
  return slots[static_cast<std::size_t>(at.token)];
}

}  // namespace

void add_unwritten_hypotheses(Branch branch, Hypotheses& list) {
  if (branch == Branch::q || branch == Branch::index_q) return;
  Mutation nowhere;
  nowhere.place = [](const HeadContract&, const HeadAt&, std::int64_t) { return std::int64_t{-1}; };
  const bool index = branch == Branch::index_k;
  list.push_back({index ? "index-cache-not-written" : "kv-write-dropped",
                  index                 ? "index K not stored"
                  : branch == Branch::k ? "K not stored"
                                        : "V not stored",
                  storing_stage(branch),
                  {branch},
                  std::move(nowhere)});
}

void add_slot_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list) {
  if (branch == Branch::q || branch == Branch::index_q) return;
  const Add add = [&](const char* id, std::string detail, Mutation mutation) {
    list.push_back({id, std::move(detail), kStage, {branch}, std::move(mutation)});
  };
  add("block-table-stale-tail", "rows that store nothing stored by their stale slots",
      by_stale_entries());
  if (!contract.call().config.skip_index_branch) {
    add("index-slot-map-swapped",
        branch == Branch::index_k ? "index K stored by slot_mapping"
                                  : "stored by index_slot_mapping",
        by_slot(other_mapping_slot));
  }
  add_negative_slots(add);
  add_block_sizes(contract, branch, add);
}

}  // namespace zerodiff::compare
