// diagnose_table() of selection_diagnosis.h.
#include <algorithm>
#include <span>
#include <utility>

#include "compare/row_explanations.h"
#include "compare/selection_diagnosis.h"
#include "reference/slot_mapping.h"
#include "reference/visible_blocks.h"

namespace zerodiff::compare {
namespace {

// A way to write one row of the table; the default is the contract's.
struct TableWriter {
  const char* id;
  const char* detail;
  bool own_block_last = true;
  std::int64_t request_offset = 0;  // whose row of the block table is read
  bool sentinels_read = false;      // -1 is used as an index into the block table
  std::int64_t length_offset = 0;
  bool whole_last_block = false;
  // Entry of page j of a pool block, from the pages that blocks are apart.
  std::int64_t (*entry)(std::int64_t block, std::int64_t j, std::int64_t apart, std::int64_t head,
                        std::int64_t heads) = nullptr;
};

std::int64_t reversed_pages(std::int64_t block, std::int64_t j, std::int64_t apart,
                            std::int64_t head, std::int64_t heads) {
  return (block * apart + 7 - j) * heads + head;
}
std::int64_t other_base(std::int64_t block, std::int64_t j, std::int64_t apart, std::int64_t head,
                        std::int64_t heads) {
  return (block * (24 - apart) + j) * heads + head;
}
std::int64_t without_head(std::int64_t block, std::int64_t j, std::int64_t apart,
                          std::int64_t /*head*/, std::int64_t heads) {
  return (block * apart + j) * heads;
}
std::int64_t unfolded(std::int64_t block, std::int64_t j, std::int64_t apart, std::int64_t /*head*/,
                      std::int64_t /*heads*/) {
  return block * apart + j;
}
std::int64_t repeated_page(std::int64_t block, std::int64_t /*j*/, std::int64_t apart,
                           std::int64_t head, std::int64_t heads) {
  return block * apart * heads + head;
}

std::vector<TableWriter> writers() {
  return {
      {.id = "topk-order-contract", .detail = "the own block is not last", .own_block_last = false},
      {.id = "topk-sentinel-deref",
       .detail = "entries of -1 read as the block table's entry before the row's",
       .sentinels_read = true},
      {.id = "block-table-stale-tail",
       .detail = "the block table of the request before",
       .request_offset = -1},
      {.id = "block-table-stale-tail",
       .detail = "the block table of the request after",
       .request_offset = 1},
      {.id = "attn-causal-offset", .detail = "lengths one token short", .length_offset = -1},
      {.id = "attn-causal-offset", .detail = "lengths one token long", .length_offset = 1},
      {.id = "attn-causal-offset", .detail = "lengths of whole blocks", .whole_last_block = true},
      {.id = "sparse-table-page-expansion",
       .detail = "pages of a block in reverse",
       .entry = reversed_pages},
      {.id = "sparse-table-page-expansion",
       .detail = "first pages of the other storage",
       .entry = other_base},
      {.id = "sparse-table-page-expansion",
       .detail = "ids of kv head 0 whatever the head",
       .entry = without_head},
      {.id = "sparse-table-page-expansion",
       .detail = "page ids without the kv head",
       .entry = unfolded},
      {.id = "sparse-table-page-expansion",
       .detail = "a block's first page eight times",
       .entry = repeated_page},
  };
}

struct TableRow {
  std::vector<std::int32_t> ids;
  std::int64_t length = 0;
};

class Writing {
 public:
  Writing(const LayerCall& call, const Tensor& selection) : call_(call), selection_(selection) {}

  TableRow row(const TableWriter& writer, std::int64_t row) const;

 private:
  std::vector<std::int64_t> blocks(const TableWriter& writer, std::int64_t row,
                                   bool& own_selected) const;
  std::int64_t pool_block(const TableWriter& writer, std::int64_t token, std::int64_t block) const;

  const LayerCall& call_;
  const Tensor& selection_;
};

// The row's blocks in table order; a sentinel that is read stays -1.
std::vector<std::int64_t> Writing::blocks(const TableWriter& writer, std::int64_t row,
                                          bool& own_selected) const {
  const LayerConfig& config = call_.config;
  const std::int64_t token = row / config.num_kv_heads;
  const std::int64_t own = reference::position_of(call_, token) / kBlockSize;
  const std::int64_t start = (row % config.num_kv_heads * config.num_tokens + token) * config.topk;
  const auto ids = selection_.as<std::int32_t>().subspan(static_cast<std::size_t>(start),
                                                         static_cast<std::size_t>(config.topk));
  std::vector<std::int64_t> result;
  for (const std::int64_t id : ids) {
    const bool is_own = id == own;
    own_selected |= is_own;
    if (is_own && writer.own_block_last) continue;
    if (id >= 0 || writer.sentinels_read) result.push_back(id);
  }
  if (own_selected && writer.own_block_last) result.push_back(own);
  return result;
}

std::int64_t Writing::pool_block(const TableWriter& writer, std::int64_t token,
                                 std::int64_t block) const {
  const std::int64_t columns = call_.block_table.dim(1);
  const std::int64_t request = reference::request_of_row(call_, token) + writer.request_offset;
  const std::int64_t at = request * columns + block;
  if (at < 0 || at >= call_.block_table.size()) return -1;
  return call_.block_table.as<std::int32_t>()[static_cast<std::size_t>(at)];
}

TableRow Writing::row(const TableWriter& writer, std::int64_t row) const {
  const LayerConfig& config = call_.config;
  const bool joined = config.kv_storage == KvStorage::block_contiguous;
  const std::int64_t apart = joined ? 2 * kPagesPerBlock : kPagesPerBlock;
  const std::int64_t heads = config.num_kv_heads;
  const std::int64_t token = row / heads;
  const std::int64_t position = reference::position_of(call_, token);
  TableRow result{std::vector<std::int32_t>(static_cast<std::size_t>(config.topk * kPagesPerBlock)),
                  0};
  if (position < 0) return result;
  bool own_selected = false;
  const std::vector<std::int64_t> list = blocks(writer, row, own_selected);
  std::size_t next = 0;
  for (const std::int64_t block : list) {
    const std::int64_t pool = pool_block(writer, token, block);
    for (std::int64_t j = 0; j < kPagesPerBlock; ++j) {
      const std::int64_t entry = writer.entry ? writer.entry(pool, j, apart, row % heads, heads)
                                              : (pool * apart + j) * heads + row % heads;
      result.ids[next++] = static_cast<std::int32_t>(entry);
    }
  }
  const auto count = static_cast<std::int64_t>(list.size());
  result.length = own_selected ? (count - 1) * kBlockSize + position % kBlockSize + 1
                               : std::min(count * kBlockSize, position + 1);
  if (writer.whole_last_block) result.length = count * kBlockSize;
  result.length += writer.length_offset;
  return result;
}

}  // namespace

Diagnosis diagnose_table(const LayerCall& call, const Tensor& selection, const Tensor& table,
                         const Tensor& context_lens, const TableCheck& check,
                         const std::string& path) {
  Diagnosis diagnosis;
  diagnosis.path = path;
  diagnosis.output = diagnosis.tensor =
      table.present() ? "sparse_block_table" : "sparse_context_lens";
  diagnosis.stage = "sparse_block_table";
  diagnosis.mismatches = check.faults;
  for (const std::int64_t row : check.faulty_rows) {
    const std::int64_t token = row / call.config.num_kv_heads;
    if (diagnosis.tokens.empty() || diagnosis.tokens.back() != token) {
      diagnosis.tokens.push_back(token);
    }
  }
  diagnosis.pattern = std::to_string(check.faults) + " of " + std::to_string(check.rows) + " rows";
  const Writing writing(call, selection);
  std::vector<RowHypothesis> hypotheses;
  for (const TableWriter& writer : writers()) {
    hypotheses.push_back(
        {writer.id, writer.detail, [&, writer](std::int64_t row) {
           const TableRow wanted = writing.row(writer, row);
           const auto width = wanted.ids.size();
           const auto at = static_cast<std::size_t>(row);
           return (!context_lens.present() ||
                   context_lens.as<std::int32_t>()[at] == wanted.length) &&
                  (!table.present() ||
                   std::ranges::equal(table.as<std::int32_t>().subspan(at * width, width),
                                      wanted.ids));
         }});
  }
  explain_rows(hypotheses, check.rows, check.faulty_rows, diagnosis);
  return diagnosis;
}

}  // namespace zerodiff::compare
