// Hypotheses about the layout of the K/V pages (docs/faults.md, 1.4).
#include "compare/hypothesis.h"

namespace zerodiff::compare {
namespace {

using reference::PagedLayout;
using reference::PagePlace;

constexpr const char* kStage = "reshape_and_cache";

// A place on a page, by the contract's slot.
using PlaceOnPage = std::function<std::int64_t(const PagedLayout& layout, PagePlace place,
                                               std::int64_t head, std::int64_t dim)>;

Mutation on_page(PlaceOnPage place) {
  return {.place = [place = std::move(place)](const HeadContract& contract, const HeadAt& at,
                                              std::int64_t dim) -> std::int64_t {
    const std::int64_t slot = contract.mapped_slot(at.branch, at.token);
    if (slot < 0) return -1;
    return place(contract.layout(at.branch), reference::page_of(slot), at.head, dim);
  }};
}

std::int64_t plane_of(const PagedLayout& layout, PagePlace place, std::int64_t head) {
  return (layout.base_page + place.page) * layout.num_kv_heads + head;
}

std::int64_t other_width(const PagedLayout& layout, PagePlace place, std::int64_t head,
                         std::int64_t dim) {
  PagedLayout other = layout;
  other.vector_width = layout.vector_width == 8 ? 16 : 8;
  return other.element(place.page, head, place.offset, dim);
}

std::int64_t other_tensor(const PagedLayout& layout, PagePlace place, std::int64_t head,
                          std::int64_t dim) {
  PagedLayout other = layout;
  other.is_value = !layout.is_value;
  return other.element(place.page, head, place.offset, dim);
}

// [page][head][16][D]
std::int64_t head_major(const PagedLayout& layout, PagePlace place, std::int64_t head,
                        std::int64_t dim) {
  return (plane_of(layout, place, head) * kPageSize + place.offset) * kHeadDim + dim;
}

// [page][head][D][16]
std::int64_t dim_major(const PagedLayout& layout, PagePlace place, std::int64_t head,
                       std::int64_t dim) {
  return (plane_of(layout, place, head) * kHeadDim + dim) * kPageSize + place.offset;
}

// [page][16][head][D]
std::int64_t token_major(const PagedLayout& layout, PagePlace place, std::int64_t head,
                         std::int64_t dim) {
  const std::int64_t slot = (layout.base_page + place.page) * kPageSize + place.offset;
  return (slot * layout.num_kv_heads + head) * kHeadDim + dim;
}

std::int64_t first_head(const PagedLayout& layout, PagePlace place, std::int64_t,
                        std::int64_t dim) {
  return layout.element(place.page, 0, place.offset, dim);
}

using Add = std::function<void(const char*, const char*, Mutation)>;

void add_page_layouts(Branch branch, const Add& add) {
  const bool value = branch == Branch::v;
  add("kv-shuffle-x-mismatch", "vectors of the other element size (x = 8 or 16)",
      on_page(other_width));
  add("kv-v-layout", value ? "V in the layout of K" : "K in the layout of V",
      on_page(other_tensor));
  add(value ? "kv-v-layout" : "kv-writer-flat-reader-shuffle", "pages laid out as [head][16][dim]",
      on_page(head_major));
  add(value ? "kv-v-layout" : "kv-writer-flat-reader-shuffle", "pages laid out as [head][dim][16]",
      on_page(dim_major));
  add("kv-writer-flat-reader-shuffle", "pages laid out as [16][head][dim]", on_page(token_major));
  add("kv-head-offset-missing", "every head stored at head 0", on_page(first_head));
}

// K and V planes mixed up. `base` and `page` say where a plane starts and which page a slot gives.
Mutation on_plane(std::function<std::int64_t(const HeadContract&, Branch)> base,
                  std::function<std::int64_t(std::int64_t mapped_slot)> slot_of) {
  return {.place = [base = std::move(base), slot_of = std::move(slot_of)](
                       const HeadContract& contract, const HeadAt& at,
                       std::int64_t dim) -> std::int64_t {
    const std::int64_t slot = contract.mapped_slot(at.branch, at.token);
    if (slot < 0) return -1;
    PagedLayout layout = contract.layout(at.branch);
    layout.base_page = base(contract, at.branch);
    const std::int64_t moved = slot_of(slot);
    if (moved + layout.base_page * kPageSize < 0) return -1;
    const PagePlace place{moved >= 0 ? moved / kPageSize : -((-moved + kPageSize - 1) / kPageSize),
                          slot % kPageSize};
    return layout.element(place.page, at.head, place.offset, dim);
  }};
}

std::int64_t as_mapped(std::int64_t slot) {
  return slot;
}

// Whole blocks too far or too early.
void add_page_shifts(const Add& add) {
  for (const std::int64_t shift : {kBlockSize, -kBlockSize}) {
    const char* const words = shift > 0 ? "stored 8 pages too far" : "stored 8 pages too early";
    add("kv-plane-offset", words,
        on_plane([](const HeadContract& c, Branch b) { return c.layout(b).base_page; },
                 [shift](std::int64_t slot) { return slot + shift; }));
  }
}

void add_joined_planes(Branch branch, const Add& add) {
  const bool value = branch == Branch::v;
  add("kv-plane-offset", value ? "V stored in K's pages" : "K stored in V's pages",
      on_plane([](const HeadContract&, Branch b) { return b == Branch::v ? 0 : kPagesPerBlock; },
               as_mapped));
  add("kv-plane-offset", "K's plane taken to precede V's plane as a whole",
      on_plane([](const HeadContract& c,
                  Branch b) { return b == Branch::v ? c.call().num_blocks() * kPagesPerBlock : 0; },
               reference::unrebase_slot));
  add("stride-ignored", "the slot not rebased: pages taken to be contiguous",
      on_plane([](const HeadContract& c, Branch b) { return c.layout(b).base_page; },
               reference::unrebase_slot));
  add("kv-plane-offset", "the slot rebased twice",
      on_plane([](const HeadContract& c, Branch b) { return c.layout(b).base_page; },
               reference::rebase_slot));
  add_page_shifts(add);
  Mutation interleaved;
  interleaved.place = [](const HeadContract& contract, const HeadAt& at,
                         std::int64_t dim) -> std::int64_t {
    const std::int64_t slot = contract.mapped_slot(at.branch, at.token);
    if (slot < 0) return -1;
    PagedLayout layout = contract.layout(at.branch);
    layout.base_page = 0;
    const PagePlace place = reference::page_of(reference::unrebase_slot(slot));
    return layout.element(2 * place.page + (layout.is_value ? 1 : 0), at.head, place.offset, dim);
  };
  add("kv-plane-offset", "K and V pages taken to alternate", std::move(interleaved));
}

void add_separate_planes(Branch branch, const Add& add) {
  const bool value = branch == Branch::v;
  Mutation swapped;
  swapped.content = [](const HeadContract&, const HeadAt& at) {
    return HeadAt{at.branch == Branch::k ? Branch::v : Branch::k, at.token, at.head};
  };
  Mutation swapped_in_its_layout = swapped;
  swapped_in_its_layout.place = on_page(other_tensor).place;
  add("kv-plane-offset", value ? "K stored as V" : "V stored as K", std::move(swapped));
  add("kv-plane-offset", value ? "K stored as V, in K's layout" : "V stored as K, in V's layout",
      std::move(swapped_in_its_layout));
  add("kv-plane-offset", "slots rebased though the planes are separate",
      on_plane([](const HeadContract&, Branch) { return 0; }, reference::rebase_slot));
  add_page_shifts(add);
}

}  // namespace

void add_layout_hypotheses(const HeadContract& contract, Branch branch, Hypotheses& list) {
  if (!contract.scaled(branch)) return;
  const Add add = [&](const char* id, const char* detail, Mutation mutation) {
    list.push_back({id, detail, kStage, {branch}, std::move(mutation)});
  };
  add_page_layouts(branch, add);
  if (contract.call().config.kv_storage == KvStorage::block_contiguous) {
    add_joined_planes(branch, add);
  } else {
    add_separate_planes(branch, add);
  }
}

}  // namespace zerodiff::compare
