#include "compare/write_set.h"

#include <algorithm>
#include <cassert>

#include "compare/coordinates.h"
#include "compare/written_elements.h"

namespace zerodiff::compare {
namespace {

// The two runs' bytes of one cache.
struct FilledPair {
  std::span<const std::byte> on_fill;
  std::span<const std::byte> on_inverse;
  std::byte fill;

  bool written(std::size_t byte) const {
    return on_fill[byte] != fill || on_inverse[byte] != ~fill;
  }
};

class WriteSetCounter {
 public:
  WriteSetCounter(const FilledPair& pair, std::size_t element_size)
      : pair_(pair), element_size_(element_size) {}

  // Counts the bytes of elements [first, first + count), which the mapping writes or does not.
  void count(std::int64_t first, std::int64_t count, bool expected, WriteSetReport& report) {
    const std::size_t begin = static_cast<std::size_t>(first) * element_size_;
    const std::size_t end = begin + static_cast<std::size_t>(count) * element_size_;
    for (std::size_t byte = begin; byte < end; ++byte) {
      const bool written = pair_.written(byte);
      report.expected_bytes += expected ? 1 : 0;
      report.written_bytes += written ? 1 : 0;
      if (expected && !written) note(byte, report.missed_bytes, first_missed);
      if (!expected && written) note(byte, report.extra_bytes, first_extra);
      if (written && pair_.on_fill[byte] != pair_.on_inverse[byte]) {
        note(byte, report.fill_dependent_bytes, first_fill_dependent);
      }
    }
  }

  std::int64_t first_missed = -1;
  std::int64_t first_extra = -1;
  std::int64_t first_fill_dependent = -1;

 private:
  void note(std::size_t byte, std::int64_t& bytes, std::int64_t& first) const {
    if (bytes++ == 0) first = static_cast<std::int64_t>(byte / element_size_);
  }

  const FilledPair& pair_;
  std::size_t element_size_;
};

std::optional<Coordinates> where(const CoordinateMap& map, const std::string& output,
                                 const Shape& shape, std::int64_t element) {
  if (element < 0) return std::nullopt;
  return map.at(output, shape, element);
}

}  // namespace

std::vector<WriteSetReport> write_set_report(const LayerCall& call, const std::string& path,
                                             std::byte fill, const Outputs& on_fill,
                                             const Outputs& on_inverse) {
  const WrittenSlots written = written_slots(call);
  const RowFacts rows = row_facts(call);
  const CoordinateMap coordinates(call, written, rows);
  std::vector<WriteSetReport> reports;
  for (const OutputField& field : kOutputFields) {
    const Tensor& tensor = on_fill.*field.tensor;
    const auto cache = cache_output(field.name);
    if (!cache || !tensor.present()) continue;
    const Tensor& inverse = on_inverse.*field.tensor;
    assert(inverse.present() && inverse.shape() == tensor.shape());
    WriteSetReport report;
    report.path = path;
    report.output = field.name;
    const CacheRegions regions(call, written, *cache);
    const FilledPair pair{tensor.bytes(), inverse.bytes(), fill};
    WriteSetCounter counter(pair, element_size(tensor.type()));
    for (std::int64_t i = 0; i < tensor.size();) {
      const CacheElement element = regions.geometry().at(i);
      const std::int64_t run = std::min(regions.run(i, element), tensor.size() - i);
      counter.count(i, run, regions.is_written(element), report);
      i += run;
    }
    report.first_missed = where(coordinates, report.output, tensor.shape(), counter.first_missed);
    report.first_extra = where(coordinates, report.output, tensor.shape(), counter.first_extra);
    report.first_fill_dependent =
        where(coordinates, report.output, tensor.shape(), counter.first_fill_dependent);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace zerodiff::compare
