#include "compare/mismatch_set.h"

#include <cstring>

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

class Collector {
 public:
  Collector(const HeadContract& contract, const JudgedTensor& tensor)
      : contract_(contract), tensor_(tensor), expected_(*tensor.expected), got_(*tensor.got) {
    if (tensor.before != nullptr) set_.kinds.assign(at(tensor.expected->size()), 0);
  }

  MismatchSet run() {
    const std::int64_t rows = contract_.call().config.num_tokens;
    for (std::int64_t token = 0; token < rows; ++token) {
      for (std::int64_t head = 0; head < contract_.heads(tensor_.branch); ++head) {
        add({tensor_.branch, token, head});
      }
    }
    if (tensor_.before != nullptr) add_strays();
    return std::move(set_);
  }

 private:
  void add(const HeadAt& head) {
    if (contract_.place(head, 0) < 0) return;
    ++set_.stored_heads;
    std::int64_t mismatches = 0;
    for (std::int64_t d = 0; d < kHeadDim; ++d) {
      const std::int64_t flat = contract_.place(head, d);
      const bool differs = !tensor_.same(expected_.at(flat), got_.at(flat));
      mismatches += differs ? 1 : 0;
      mark(flat, static_cast<std::uint8_t>(kOwned | (differs ? kMismatching : 0)));
    }
    if (mismatches == 0) return;
    set_.heads.push_back({head, mismatches});
    set_.total += mismatches;
    for (std::int64_t d = 0; d < kHeadDim; ++d) mark(contract_.place(head, d), kAffected);
  }

  void mark(std::int64_t flat, std::uint8_t kind) {
    if (!set_.kinds.empty()) set_.kinds[at(flat)] |= kind;
  }

  void add_strays() {
    const auto output = cache_output(tensor_.output);
    const CacheGeometry geometry(contract_.call(), *output);
    const std::int64_t plane = tensor_.branch == Branch::v ? kValuePlane : kKeyPlane;
    const std::int64_t stretch = geometry.page_elements();
    const std::size_t bytes = at(stretch) * element_size(tensor_.expected->type());
    for (std::int64_t first = 0; first < tensor_.expected->size(); first += stretch) {
      const std::size_t offset = at(first) * element_size(tensor_.expected->type());
      if (std::memcmp(tensor_.expected->bytes().data() + offset,
                      tensor_.got->bytes().data() + offset, bytes) == 0) {
        continue;
      }
      if (*output == CacheOutput::kv_cache && geometry.at(first).plane != plane) continue;
      add_strays_of(first, first + stretch);
    }
  }

  void add_strays_of(std::int64_t first, std::int64_t last) {
    for (std::int64_t flat = first; flat < last; ++flat) {
      if ((set_.kinds[at(flat)] & kOwned) != 0 || expected_.at(flat) == got_.at(flat)) continue;
      set_.strays.push_back(flat);
      set_.kinds[at(flat)] |= kMismatching;
      ++set_.total;
    }
  }

  const HeadContract& contract_;
  const JudgedTensor& tensor_;
  StoredBits expected_;
  StoredBits got_;
  MismatchSet set_;
};

}  // namespace

void JudgedTensor::prepare() {
  order_ = element_order(expected->type());
  any_nan_ = branch != Branch::v || is_fp8(expected->type());
}

MismatchSet mismatches_of(const HeadContract& contract, const JudgedTensor& tensor) {
  return Collector(contract, tensor).run();
}

}  // namespace zerodiff::compare
