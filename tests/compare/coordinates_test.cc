// Coordinates of every output: names, order, ranges, and that they name the element.
#include "compare/coordinates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/compare/small_call.h"

namespace zerodiff::compare {
namespace {

class Places {
 public:
  explicit Places(const GeneratorOptions& options)
      : call(generate_call(options)),
        written(written_slots(call)),
        rows(row_facts(call)),
        map(call, written, rows) {}

  LayerCall call;
  WrittenSlots written;
  RowFacts rows;
  CoordinateMap map;
};

TEST(RowFactsTest, FindTheRequestByQueryStartLoc) {
  LayerCall call = generate_call(small_options());
  const RowFacts facts = row_facts(call);
  const auto starts = call.query_start_loc.as<std::int32_t>();
  ASSERT_EQ(std::ssize(facts.request), call.capacity());
  for (std::size_t request = 0; request + 1 < starts.size(); ++request) {
    for (auto row = static_cast<std::size_t>(starts[request]);
         row < static_cast<std::size_t>(starts[request + 1]); ++row) {
      EXPECT_EQ(facts.request[row], static_cast<std::int64_t>(request)) << row;
    }
  }
  for (auto row = static_cast<std::size_t>(call.config.num_tokens); row < facts.request.size();
       ++row) {
    EXPECT_EQ(facts.request[row], -1) << row;
  }
  call.query_start_loc = Tensor();
  EXPECT_THAT(row_facts(call).request, testing::Each(-1));
}

struct OutputCase {
  std::string output;
  std::vector<std::string> names;
  Shape shape;
  std::vector<std::string> axes;  // the coordinates that rebuild the index, outermost first
  std::vector<std::int64_t> extents;
};

void PrintTo(const OutputCase& c, std::ostream* out) {
  *out << c.output;
}

class OutputCoordinates : public testing::TestWithParam<OutputCase> {};

TEST_P(OutputCoordinates, RebuildEveryFlatIndex) {
  const Places places(small_options());
  const OutputCase& c = GetParam();
  std::int64_t elements = 1;
  for (const std::int64_t extent : c.shape) elements *= extent;
  for (std::int64_t flat = 0; flat < elements; ++flat) {
    const Coordinates where = places.map.at(c.output, c.shape, flat);
    ASSERT_EQ(coordinate_names(where), c.names);
    std::int64_t rebuilt = 0;
    for (std::size_t axis = 0; axis < c.axes.size(); ++axis) {
      const std::int64_t value = coordinate(where, c.axes[axis]);
      ASSERT_GE(value, 0);
      ASSERT_LT(value, c.extents[axis]);
      rebuilt = rebuilt * c.extents[axis] + value;
    }
    ASSERT_EQ(rebuilt, flat);
    const auto token = static_cast<std::size_t>(coordinate(where, "token"));
    ASSERT_EQ(coordinate(where, "request"), places.rows.request[token]);
    ASSERT_EQ(coordinate(where, "position"), places.rows.position[token]);
  }
}

// 9 tokens of 12 rows, 4 heads, 2 kv heads, topk 2.
INSTANTIATE_TEST_SUITE_P(
    Outputs, OutputCoordinates,
    testing::Values(OutputCase{"q",
                               {"token", "request", "position", "head", "dim"},
                               {12, 512},
                               {"token", "head", "dim"},
                               {12, 4, 128}},
                    OutputCase{"index_q",
                               {"token", "request", "position", "head", "dim"},
                               {12, 256},
                               {"token", "head", "dim"},
                               {12, 2, 128}},
                    OutputCase{"attn_output",
                               {"token", "request", "position", "head", "dim"},
                               {9, 4, 128},
                               {"token", "head", "dim"},
                               {9, 4, 128}},
                    OutputCase{"topk_index",
                               {"kv_head", "token", "request", "position", "rank"},
                               {2, 9, 2},
                               {"kv_head", "token", "rank"},
                               {2, 9, 2}},
                    OutputCase{"index_score",
                               {"kv_head", "token", "request", "position", "block"},
                               {2, 9, 5},
                               {"kv_head", "token", "block"},
                               {2, 9, 5}},
                    OutputCase{"sparse_block_table",
                               {"token", "request", "position", "kv_head", "rank", "page_in_block"},
                               {18, 16},
                               {"token", "kv_head", "rank", "page_in_block"},
                               {9, 2, 2, 8}},
                    OutputCase{"sparse_context_lens",
                               {"token", "request", "position", "kv_head"},
                               {18},
                               {"token", "kv_head"},
                               {9, 2}}),
    [](const auto& c) { return c.param.output; });

class CacheCoordinates : public testing::TestWithParam<std::size_t> {};

TEST_P(CacheCoordinates, NameSlotPlaceAndTheRowThatWroteIt) {
  const Places places(cache_kinds().at(GetParam()).options);
  const auto slots = places.call.slot_mapping.as<std::int64_t>();
  for (const InputField& field : kInputFields) {
    const auto output = cache_output(field.name);
    const Tensor& tensor = places.call.*field.tensor;
    if (!output || !tensor.present()) continue;
    const CacheGeometry geometry(places.call, *output);
    std::int64_t with_token = 0;
    for (std::int64_t flat = 0; flat < tensor.size(); ++flat) {
      const Coordinates where = places.map.at(field.name, tensor.shape(), flat);
      const CacheElement element = geometry.at(flat);
      ASSERT_EQ(coordinate(where, "slot"), element.slot);
      ASSERT_EQ(coordinate(where, "offset"), element.offset);
      ASSERT_EQ(coordinate(where, "block"), element.block);
      ASSERT_EQ(coordinate(where, "dim"), element.dim);
      ASSERT_EQ(coordinate(where, "byte_offset"),
                flat * static_cast<std::int64_t>(element_size(tensor.type())));
      const std::int64_t token = coordinate(where, "token");
      if (token < 0) {
        ASSERT_EQ(coordinate(where, "position"), -1);
        continue;
      }
      ++with_token;
      ASSERT_EQ(slots[static_cast<std::size_t>(token)], element.slot);
      ASSERT_EQ(coordinate(where, "position"),
                places.rows.position[static_cast<std::size_t>(token)]);
    }
    const std::int64_t per_row = tensor.size() / places.call.num_slots();
    EXPECT_EQ(with_token, std::ssize(stored_rows(places.call)) * per_row) << field.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CacheCoordinates, testing::Range<std::size_t>(0, 4),
                         [](const auto& kind) { return name_of_kind(kind.param); });

TEST(CacheCoordinateNames, AreInReadingOrder) {
  const Places separate(cache_kinds().at(0).options);
  const Places joined(cache_kinds().at(2).options);
  const std::vector<std::string> paged{"slot", "page",  "offset",  "block",    "head",
                                       "dim",  "token", "request", "position", "byte_offset"};
  std::vector<std::string> with_plane = paged;
  with_plane.insert(with_plane.begin(), "plane");
  EXPECT_EQ(coordinate_names(separate.map.at("k_cache", {}, 0)), paged);
  EXPECT_EQ(coordinate_names(separate.map.at("v_cache", {}, 0)), paged);
  EXPECT_EQ(coordinate_names(joined.map.at("kv_cache", {}, 0)), with_plane);
  EXPECT_EQ(coordinate_names(joined.map.at("index_cache", {}, 0)),
            (std::vector<std::string>{"slot", "block", "offset", "dim", "token", "request",
                                      "position", "byte_offset"}));
  // K is the first 8 pages of a block, V the next 8.
  const std::int64_t half = 8 * 2 * 16 * 128;
  EXPECT_EQ(coordinate(joined.map.at("kv_cache", {}, half - 1), "plane"), 0);
  EXPECT_EQ(coordinate(joined.map.at("kv_cache", {}, half), "plane"), 1);
  EXPECT_EQ(coordinate(joined.map.at("kv_cache", {}, half), "page"), 0);
  EXPECT_EQ(coordinate(joined.map.at("kv_cache", {}, 2 * half), "page"), 16);
}

}  // namespace
}  // namespace zerodiff::compare
