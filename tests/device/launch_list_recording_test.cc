// Recordings: written, read back, run again; and indexes that must be refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "device/recording.h"
#include "device/recording_index.h"
#include "fixtures/error.h"
#include "tests/device/simt_harness.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
namespace {

ZERODIFF_KERNEL(mix)
(View<float> out, View<int64_t> places, View<const uint8_t> codes, View<const float> absent,
 float bias, int32_t shift, uint32_t mask, int64_t n) {
  const uint32_t thread = threadIdx.z * blockDim.x + threadIdx.x;
  const int64_t i = int64_t{blockIdx.x} * 32 + thread;
  if (i >= n || absent) return;
  const uint32_t code = uint32_t{codes[i]} & mask;
  out[i] = static_cast<float>(static_cast<int32_t>(code) + shift) + bias;
  places[i] += n;
}
ZERODIFF_KERNEL(broken_mix)(View<float> out) {
  out[threadIdx.x] += 1.0f;
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry(
      {ZERODIFF_HOST_KERNEL(mix), ZERODIFF_HOST_KERNEL(broken_mix)});
  return registry;
}

}  // namespace
}  // namespace ZERODIFF_BACKEND

namespace {

namespace fs = std::filesystem;

fs::path fresh_directory() {
  static int number = 0;
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  fs::path path =
      fs::path(testing::TempDir()) / ("zerodiff_recording_" + std::to_string(getpid()) + "_" +
                                      test->name() + "_" + std::to_string(number++));
  fs::remove_all(path);
  return path;
}

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

constexpr std::int64_t kCount = 40;

LaunchList mix_list(const Tensor& places) {
  LaunchList list;
  Tensor codes = Tensor::allocate(ElementType::float8_e4m3fn, {kCount});
  for (std::size_t i = 0; i < kCount; ++i) codes.as<std::uint8_t>()[i] = std::uint8_t(7 * i);
  const BufferId out = list.add_output("out values", ElementType::float32, kCount + 4);
  const BufferId in = list.add_input("codes", std::move(codes));
  const BufferId at = list.add_inout("places", places);
  list.add_launch({.kernel = "mix",
                   .grid = {.x = 2},
                   .block = {.x = 8, .y = 1, .z = 4},
                   .lds_bytes = 48,
                   .arguments = {BufferArgument{out, 16}, BufferArgument{at}, BufferArgument{in},
                                 NullArgument{}, -0.0f, std::int32_t{-5}, 0xfffffff0u, kCount}});
  return list;
}

TEST(Recording, ComesBackAsItWasAndRunsToTheSameBytes) {
  const fs::path directory = fresh_directory();
  const Tensor places = Tensor::zeros(ElementType::int64, {kCount});
  const LaunchList list = mix_list(places);
  HostBackend backend({.wave_width = 64}, kernels());
  const RunReport report = record(backend, list, directory);
  ASSERT_TRUE(report.ok()) << all_faults(report);

  const Recording recording = read_recording(directory);
  EXPECT_EQ(recording.backend, "host");
  EXPECT_EQ(recording.wave_width, 64);
  ASSERT_EQ(recording.list.buffers().size(), list.buffers().size());
  for (std::uint32_t i = 0; i < list.buffers().size(); ++i) {
    EXPECT_EQ(recording.list.buffer({i}).name, list.buffer({i}).name);
    EXPECT_EQ(recording.list.buffer({i}).type, list.buffer({i}).type);
    EXPECT_EQ(recording.list.buffer({i}).role, list.buffer({i}).role);
    EXPECT_EQ(recording.list.buffer({i}).initial.kind, list.buffer({i}).initial.kind);
  }
  ASSERT_EQ(recording.list.launches().size(), 1u);
  const Launch& launch = recording.list.launches()[0];
  EXPECT_EQ(launch.grid, list.launches()[0].grid);
  EXPECT_EQ(launch.block, list.launches()[0].block);
  EXPECT_EQ(launch.lds_bytes, 48);
  EXPECT_EQ(launch.arguments, list.launches()[0].arguments);
  EXPECT_TRUE(std::signbit(std::get<float>(launch.arguments[4])));

  const auto resident = backend.allocate(recording.list);
  resident->upload();
  for (std::uint32_t i = 0; i < list.buffers().size(); ++i) {
    std::vector<std::byte> bytes(recording.before[i].size());
    resident->download({i}, bytes);
    EXPECT_EQ(bytes, recording.before[i]) << i;
  }
  ASSERT_TRUE(resident->run().ok());
  for (std::uint32_t i = 0; i < list.buffers().size(); ++i) {
    std::vector<std::byte> bytes(recording.after[i].size());
    resident->download({i}, bytes);
    EXPECT_EQ(bytes, recording.after[i]) << i;
  }
  fs::remove_all(directory);
}

TEST(Recording, WritesOneRawFileForEachBufferAndState) {
  const fs::path directory = fresh_directory();
  const Tensor places = Tensor::zeros(ElementType::int64, {kCount});
  const LaunchList list = mix_list(places);
  HostBackend backend({}, kernels());
  ASSERT_TRUE(record(backend, list, directory).ok());
  std::map<std::string, std::uintmax_t> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".bin") files[entry.path().filename()] = entry.file_size();
  }
  const std::map<std::string, std::uintmax_t> expected{
      {"000_out_values.before.bin", 176}, {"000_out_values.after.bin", 176},
      {"001_codes.before.bin", 40},       {"001_codes.after.bin", 40},
      {"002_places.before.bin", 320},     {"002_places.after.bin", 320}};
  EXPECT_EQ(files, expected);
  EXPECT_EQ(read_text(directory / "001_codes.before.bin"),
            read_text(directory / "001_codes.after.bin"));
  EXPECT_EQ(read_text(directory / "002_places.before.bin"), std::string(320, '\0'));
  EXPECT_EQ(read_text(directory / "002_places.after.bin").substr(0, 8),
            std::string("\x28\0\0\0\0\0\0\0", 8));
  fs::remove_all(directory);
}

TEST(Recording, AFaultyRunLeavesNothingBehind) {
  const fs::path directory = fresh_directory();
  LaunchList list;
  const BufferId out = list.add_output("out", ElementType::float32, 32);
  list.add_launch({.kernel = "broken_mix", .block = {.x = 32}, .arguments = {BufferArgument{out}}});
  HostBackend backend({}, kernels());
  const RunReport report = record(backend, list, directory);
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(report.faults[0].kind, FaultKind::unwritten_read);
  for (const auto& entry : fs::directory_iterator(directory.parent_path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(directory.filename().string()))
        << entry.path();
  }
}

TEST(Recording, NeverOverwrites) {
  const fs::path directory = fresh_directory();
  fs::create_directory(directory);
  const Tensor places = Tensor::zeros(ElementType::int64, {kCount});
  const LaunchList list = mix_list(places);
  HostBackend backend({}, kernels());
  try {
    record(backend, list, directory);
    ADD_FAILURE() << "wrote";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.what(), directory.string() + " exists already");
  }
  EXPECT_TRUE(fs::is_empty(directory));
  fs::remove_all(directory);
}

// A change to a recording's files that reading must notice.
struct Damage {
  std::string name;
  void (*apply)(const fs::path&);
  std::string message;  // after the directory
};
void PrintTo(const Damage& damage, std::ostream* os) {
  *os << damage.name;
}

void replace_in_index(const fs::path& directory, const std::string& from, const std::string& to) {
  std::string text = read_text(directory / "index.json");
  const std::size_t place = text.find(from);
  ASSERT_NE(place, std::string::npos) << from;
  std::ofstream(directory / "index.json", std::ios::binary) << text.replace(place, from.size(), to);
}

class RecordingDamage : public testing::TestWithParam<Damage> {};

TEST_P(RecordingDamage, IsRefused) {
  const fs::path directory = fresh_directory();
  const Tensor places = Tensor::zeros(ElementType::int64, {kCount});
  const LaunchList list = mix_list(places);
  HostBackend backend({}, kernels());
  ASSERT_TRUE(record(backend, list, directory).ok());
  GetParam().apply(directory);
  try {
    read_recording(directory);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    const std::string message = error.what();
    EXPECT_EQ(message.substr(0, directory.string().size()), directory.string());
    EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  }
  fs::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(
    Files, RecordingDamage,
    testing::Values(
        Damage{"Missing", [](const fs::path& d) { fs::remove(d / "001_codes.after.bin"); },
               "/001_codes.after.bin: file: found none"},
        Damage{"NoIndex", [](const fs::path& d) { fs::remove(d / "index.json"); },
               "/index.json: file: found none"},
        Damage{"Shorter",
               [](const fs::path& d) { fs::resize_file(d / "002_places.before.bin", 8); },
               "/002_places.before.bin: size: found 8 bytes, wanted 320"},
        Damage{"OneByte",
               [](const fs::path& d) {
                 std::fstream file(d / "002_places.after.bin");
                 file.seekp(5);
                 file.put('x');
               },
               "/002_places.after.bin: xxh3_128: found "}),
    [](const auto& row) { return row.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Index, RecordingDamage,
    testing::Values(
        Damage{"NotJson", [](const fs::path& d) { fs::resize_file(d / "index.json", 100); },
               "/index.json: recording index: found"},
        Damage{"OtherFormat",
               [](const fs::path& d) { replace_in_index(d, "zerodiff.recording", "other"); },
               "/index.json/format: recording index: found \"other\", wanted zerodiff.recording"},
        Damage{"NewerVersion",
               [](const fs::path& d) { replace_in_index(d, "\"version\": 1", "\"version\": 2"); },
               "/index.json/version: recording index: found 2, wanted 1"},
        Damage{"UnknownRole", [](const fs::path& d) { replace_in_index(d, "\"inout\"", "\"in\""); },
               "/index.json/buffers/2/role: recording index: found \"in\", wanted a known name"},
        Damage{"FileElsewhere",
               [](const fs::path& d) {
                 replace_in_index(d, "\"001_codes.after.bin\"", "\"../passwd\"");
               },
               "/index.json/buffers/1/after/file: recording index: found \"../passwd\""},
        Damage{"CountTooLarge",
               [](const fs::path& d) {
                 replace_in_index(d, "\"count\": 44", "\"count\": 4611686018427387904");
               },
               "/index.json/buffers/0/count: recording index: found 4611686018427387904"},
        Damage{"ScalarTooWide",
               [](const fs::path& d) {
                 replace_in_index(d, "\"value\": -5", "\"value\": 2147483648");
               },
               "/index.json/launches/0/arguments/5/value: recording index: found 2147483648, "
               "wanted an integer of 32 bits"},
        Damage{"OffsetBetweenElements",
               [](const fs::path& d) {
                 replace_in_index(d, "\"byte_offset\": 16", "\"byte_offset\": 17");
               },
               "/index.json: launch 0 (mix) argument 0: byte offset into out values: found 17"},
        Damage{"TextForANumber",
               [](const fs::path& d) {
                 replace_in_index(d, "\"lds_bytes\": 48", "\"lds_bytes\": \"48\"");
               },
               "/index.json/launches/0/lds_bytes: recording index: found \"48\""}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace zerodiff::device
