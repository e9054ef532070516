#include "compare/table_check.h"

#include <algorithm>
#include <array>
#include <span>

#include "reference/slot_mapping.h"
#include "reference/sparse_block_table.h"
#include "reference/visible_blocks.h"

namespace zerodiff::compare {
namespace {

using Ids = std::span<const std::int32_t>;
using PageIds = std::array<std::int32_t, static_cast<std::size_t>(kPagesPerBlock)>;

// The selection with every id that its row cannot see taken out, and the rows that had one.
struct UsableSelection {
  Tensor ids;
  std::vector<bool> complete;  // by head * num_tokens + token
};

UsableSelection usable(const LayerCall& call, const Tensor& selection) {
  const std::int64_t rows = call.config.num_kv_heads * call.config.num_tokens;
  const auto width = static_cast<std::size_t>(call.config.topk);
  UsableSelection result{selection, std::vector<bool>(static_cast<std::size_t>(rows), true)};
  const auto ids = result.ids.as<std::int32_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t visible = reference::visible_blocks(call, row % call.config.num_tokens);
    for (std::int32_t& id : ids.subspan(static_cast<std::size_t>(row) * width, width)) {
      if (id >= -1 && id < visible) continue;
      id = -1;
      result.complete[static_cast<std::size_t>(row)] = false;
    }
  }
  return result;
}

std::vector<PageIds> blocks_of(Ids entries, std::int64_t blocks) {
  std::vector<PageIds> result(static_cast<std::size_t>(blocks));
  for (std::size_t n = 0; n < result.size(); ++n) {
    std::copy_n(entries.begin() + static_cast<std::ptrdiff_t>(n * kPagesPerBlock), kPagesPerBlock,
                result[n].begin());
  }
  return result;
}

// Whether `got` lists the blocks of `wanted`, `blocks` of them, in another order with the last one
// in its place, and nothing after them.
bool same_blocks(Ids wanted, Ids got, std::int64_t blocks, bool own_last) {
  const auto used = static_cast<std::ptrdiff_t>(blocks * kPagesPerBlock);
  if (!std::equal(wanted.begin() + used, wanted.end(), got.begin() + used)) return false;
  std::vector<PageIds> a = blocks_of(wanted, blocks);
  std::vector<PageIds> b = blocks_of(got, blocks);
  if (own_last && a.back() != b.back()) return false;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

std::string first_entry(Ids wanted, Ids got) {
  const auto at = std::mismatch(wanted.begin(), wanted.end(), got.begin());
  const std::int64_t column = at.first - wanted.begin();
  return "rank " + std::to_string(column / kPagesPerBlock) + ", page " +
         std::to_string(column % kPagesPerBlock) + " is " + std::to_string(*at.second) +
         ", wanted " + std::to_string(*at.first);
}

class TableJudge {
 public:
  TableJudge(const LayerCall& call, const Tensor& selection, const Tensor& table,
             const Tensor& context_lens)
      : call_(call),
        selection_(usable(call, selection)),
        wanted_(reference::sparse_block_table(call, selection_.ids)),
        table_(table),
        context_lens_(context_lens) {}

  void judge(std::int64_t row, std::size_t kept, TableCheck& check) const;

 private:
  Ids selected(std::int64_t row) const;
  std::string problem(std::int64_t row, bool& reordered) const;

  const LayerCall& call_;
  UsableSelection selection_;
  reference::SparseBlockTable wanted_;
  const Tensor& table_;
  const Tensor& context_lens_;
};

Ids TableJudge::selected(std::int64_t row) const {
  const std::int64_t heads = call_.config.num_kv_heads;
  const auto width = static_cast<std::size_t>(call_.config.topk);
  const auto flat = static_cast<std::size_t>(row % heads * call_.config.num_tokens + row / heads);
  return selection_.ids.as<std::int32_t>().subspan(flat * width, width);
}

std::string TableJudge::problem(std::int64_t row, bool& reordered) const {
  const auto at = static_cast<std::size_t>(row);
  if (context_lens_.present()) {
    const std::int32_t wanted = wanted_.context_lens.as<std::int32_t>()[at];
    const std::int32_t got = context_lens_.as<std::int32_t>()[at];
    if (got != wanted) {
      return "length " + std::to_string(got) + ", wanted " + std::to_string(wanted);
    }
  }
  if (!table_.present()) return "";
  const auto width = static_cast<std::size_t>(call_.config.topk * kPagesPerBlock);
  const Ids wanted = wanted_.table.as<std::int32_t>().subspan(at * width, width);
  const Ids got = table_.as<std::int32_t>().subspan(at * width, width);
  if (std::equal(wanted.begin(), wanted.end(), got.begin())) return "";
  const Ids ids = selected(row);
  const auto blocks = static_cast<std::int64_t>(
      std::count_if(ids.begin(), ids.end(), [](std::int32_t id) { return id >= 0; }));
  const std::int64_t own =
      reference::position_of(call_, row / call_.config.num_kv_heads) / kBlockSize;
  const bool own_last = std::find(ids.begin(), ids.end(), own) != ids.end();
  reordered = same_blocks(wanted, got, blocks, own_last);
  return reordered ? "" : first_entry(wanted, got);
}

void TableJudge::judge(std::int64_t row, std::size_t kept, TableCheck& check) const {
  const std::int64_t heads = call_.config.num_kv_heads;
  const std::int64_t token = row / heads;
  ++check.rows;
  if (!selection_
           .complete[static_cast<std::size_t>(row % heads * call_.config.num_tokens + token)]) {
    ++check.not_judged;
    return;
  }
  bool reordered = false;
  const std::string text = problem(row, reordered);
  if (text.empty()) {
    ++(reordered ? check.reordered : check.identical);
    return;
  }
  ++check.faults;
  check.faulty_rows.push_back(row);
  if (check.first_faults.size() >= kept) return;
  check.first_faults.push_back({{{"token", token},
                                 {"request", reference::request_of_row(call_, token)},
                                 {"position", reference::position_of(call_, token)},
                                 {"kv_head", row % heads}},
                                text});
}

}  // namespace

TableCheck check_table(const LayerCall& call, const Tensor& selection, const Tensor& table,
                       const Tensor& context_lens, std::size_t kept) {
  TableCheck check;
  const TableJudge judge(call, selection, table, context_lens);
  for (std::int64_t row = 0; row < call.config.num_tokens * call.config.num_kv_heads; ++row) {
    judge.judge(row, kept, check);
  }
  return check;
}

}  // namespace zerodiff::compare
