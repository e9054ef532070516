// Results held against a recording: what counts as equal, what is needed, what is named.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>

#include "device/host/host_backend.h"
#include "device/recording.h"
#include "device/recording_check.h"
#include "fixtures/error.h"

namespace zerodiff::device {
namespace {

namespace fs = std::filesystem;
using State = BufferCheck::State;

// A recording of two launches that LDS reversal makes of 256 numbers, with its results beside it.
class RecordingCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(testing::TempDir()) /
                 ("zerodiff_check_" + std::to_string(getpid()) + "_" + test->name());
    fs::remove_all(directory_);
    LaunchList list;
    Tensor numbers = Tensor::allocate(ElementType::float32, {256});
    for (std::size_t i = 0; i < 256; ++i) numbers.as<float>()[i] = static_cast<float>(i);
    numbers.as<float>()[9] = std::bit_cast<float>(0x7FC00001);
    const BufferId in = list.add_input("numbers", std::move(numbers));
    const BufferId between = list.add_output("between", ElementType::float32, 256);
    const BufferId out = list.add_output("out", ElementType::float32, 256);
    const BufferId unused = list.add_scratch("unused", ElementType::float32, 256);
    const auto launch = [&](BufferId from, BufferId to) {
      list.add_launch(
          {.kernel = "selftest_lds",
           .block = {.x = 256},
           .lds_bytes = 1024,
           .arguments = {BufferArgument{from}, BufferArgument{to}, BufferArgument{unused}}});
    };
    launch(in, between);
    launch(between, out);
    HostBackend backend;
    ASSERT_TRUE(record(backend, list, directory_).ok());
    ASSERT_TRUE(run_recording(backend, directory_).ok());
  }
  void TearDown() override { fs::remove_all(directory_); }

  void change(const char* file, std::int64_t byte, int bits) const {
    std::fstream stream(directory_ / file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(byte);
    const int old = stream.get();
    stream.seekp(byte);
    stream.put(static_cast<char>(old ^ bits));
    ASSERT_TRUE(stream.good());
  }
  std::string message() const {
    try {
      check_recording(directory_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "none";
  }

  fs::path directory_;
};

TEST_F(RecordingCheckTest, EqualResultsPass) {
  const RecordingCheck check = check_recording(directory_);
  EXPECT_TRUE(check.ok());
  ASSERT_EQ(check.buffers.size(), 4U);
  EXPECT_EQ(check.buffers[0].state, State::identical);
  EXPECT_EQ(check.buffers[2].state, State::identical);
  EXPECT_EQ(check.buffers[3].state, State::not_compared) << "scratch proves nothing";
  EXPECT_EQ(check.suspects(), nullptr);
}

TEST_F(RecordingCheckTest, OneChangedByteIsNamed) {
  change("002_out.result.bin", 4 * 77 + 3, 0x80);
  const RecordingCheck check = check_recording(directory_);
  EXPECT_FALSE(check.ok());
  const BufferCheck& out = check.buffers[2];
  EXPECT_EQ(out.state, State::different);
  EXPECT_EQ(out.different, 1);
  EXPECT_EQ(out.first, 77);
  EXPECT_EQ(out.wanted, 0x429A0000U);
  EXPECT_EQ(out.found, 0xC29A0000U);
  EXPECT_EQ(out.launches, std::vector<std::size_t>{1});
  EXPECT_EQ(check.launches[1], "launch 1 (selftest_lds)");
  EXPECT_EQ(check.buffers[1].state, State::identical);
}

TEST_F(RecordingCheckTest, TheEarliestLaunchIsSuspected) {
  change("002_out.result.bin", 0, 1);
  change("001_between.result.bin", 0, 1);
  const RecordingCheck check = check_recording(directory_);
  ASSERT_NE(check.suspects(), nullptr);
  EXPECT_EQ(*check.suspects(), (std::vector<std::size_t>{0, 1}));
}

TEST_F(RecordingCheckTest, AnInputThatWasWrittenFails) {
  change("000_numbers.result.bin", 8, 1);
  const RecordingCheck check = check_recording(directory_);
  EXPECT_FALSE(check.ok());
  EXPECT_EQ(check.buffers[0].state, State::different);
}

TEST_F(RecordingCheckTest, AnInputNeedNotComeBack) {
  fs::remove(directory_ / "000_numbers.result.bin");
  const RecordingCheck check = check_recording(directory_);
  EXPECT_TRUE(check.ok());
  EXPECT_EQ(check.buffers[0].state, State::not_compared);
}

TEST_F(RecordingCheckTest, PayloadsOfNanAreCountedApart) {
  change("002_out.result.bin", 4 * 9, 0x06);
  const RecordingCheck check = check_recording(directory_);
  EXPECT_TRUE(check.ok());
  EXPECT_EQ(check.buffers[2].state, State::nan_payloads);
  EXPECT_EQ(check.buffers[2].nan_payloads, 1);
  EXPECT_EQ(check.buffers[2].first, 9);
  change("002_out.result.bin", 4 * 9 + 2, 0xC0);  // and now it is no NaN at all
  change("002_out.result.bin", 4 * 9, 0x07);
  EXPECT_FALSE(check_recording(directory_).ok());
}

TEST_F(RecordingCheckTest, AMissingResultIsBadInput) {
  fs::remove(directory_ / "001_between.result.bin");
  EXPECT_NE(message().find("001_between.result.bin"), std::string::npos) << message();
}

TEST_F(RecordingCheckTest, AShortResultIsBadInput) {
  fs::resize_file(directory_ / "001_between.result.bin", 1023);
  EXPECT_NE(message().find("001_between.result.bin: size: found 1023 bytes, wanted 1024"),
            std::string::npos)
      << message();
}

}  // namespace
}  // namespace zerodiff::device
