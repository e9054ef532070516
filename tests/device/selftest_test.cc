// The self-test: the host passes it, and each result that a device gets wrong is caught.
#include "device/selftest/selftest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include "device/host/host_backend.h"
#include "device/selftest/plain_arithmetic.h"

namespace zerodiff::device {
namespace {

// What a broken device does.
struct Breakage {
  std::string flipped{};    // the lowest bit of the buffer of this name, element 5 (or the last)
  bool deaf = false;        // single uploads have no effect
  bool silent = false;      // guard bands are not looked at
  bool suspicious = false;  // every run reports a fault
  std::set<std::string>* outputs = nullptr;  // collects the names of what is downloaded
};

class BrokenList final : public ResidentLaunchList {
 public:
  BrokenList(std::unique_ptr<ResidentLaunchList> list, const LaunchList& description,
             const Breakage& breakage)
      : list_(std::move(list)), description_(description), breakage_(breakage) {}

  void upload() override { list_->upload(); }
  void upload(BufferId buffer, std::span<const std::byte> content) override {
    if (!breakage_.deaf) list_->upload(buffer, content);
  }
  RunReport run() override {
    RunReport report = list_->run();
    if (breakage_.silent) report.faults.clear();
    if (breakage_.suspicious) report.faults.emplace_back().detail = "made up";
    return report;
  }
  void download(BufferId buffer, std::span<std::byte> content) const override {
    list_->download(buffer, content);
    const BufferDescription& description = description_.buffer(buffer);
    if (breakage_.outputs != nullptr) breakage_.outputs->insert(description.name);
    if (breakage_.flipped != description.name) return;
    const auto element = std::min<std::size_t>(5, static_cast<std::size_t>(description.count) - 1);
    content[element * element_size(description.type)] ^= std::byte{1};
  }
  void download_part(BufferId buffer, std::int64_t byte_offset,
                     std::span<std::byte> content) const override {
    list_->download_part(buffer, byte_offset, content);
  }
  double time_launches(std::size_t first, std::size_t last) override {
    return list_->time_launches(first, last);
  }
  double time_copy(BufferId from, BufferId to) override { return list_->time_copy(from, to); }

 private:
  std::unique_ptr<ResidentLaunchList> list_;
  const LaunchList& description_;
  const Breakage& breakage_;
};

class BrokenBackend final : public Backend {
 public:
  explicit BrokenBackend(Breakage breakage) : breakage_(std::move(breakage)) {}
  std::string_view name() const override { return "broken"; }
  int wave_width() const override { return backend_.wave_width(); }
  DeviceTraits traits() const override { return backend_.traits(); }
  std::unique_ptr<ResidentLaunchList> allocate(const LaunchList& list) override {
    return std::make_unique<BrokenList>(backend_.allocate(list), list, breakage_);
  }

 private:
  HostBackend backend_;
  Breakage breakage_;
};

constexpr SelftestOptions kFewer{.stride = 997};

class EachCheck : public testing::TestWithParam<SelftestCheck> {
 protected:
  SelftestResult run(Breakage breakage) const {
    BrokenBackend backend(std::move(breakage));
    return GetParam().run(backend, kFewer);
  }
};

TEST_P(EachCheck, CatchesEveryOutputThatIsWrong) {
  std::set<std::string> outputs;
  const SelftestResult clean = run({.flipped = {}, .outputs = &outputs});
  EXPECT_TRUE(clean.passed()) << clean.first;
  EXPECT_EQ(clean.name, GetParam().name);
  if (GetParam().name == "canaries") {
    EXPECT_TRUE(outputs.empty());
    return;
  }
  EXPECT_FALSE(outputs.empty());
  std::size_t caught = 0;
  for (const std::string& output : outputs) {
    const SelftestResult result = run({.flipped = output});
    caught += result.passed() ? 0 : 1;
    EXPECT_EQ(result.first.empty(), result.passed()) << result.first;
  }
  // All four results come back to every arithmetic check, which judges its own.
  const bool shares_a_kernel = GetParam().name == "square root" || GetParam().name == "division" ||
                               GetParam().name == "fma" || GetParam().name == "contraction";
  EXPECT_EQ(caught, shares_a_kernel ? 1 : outputs.size());
}

TEST_P(EachCheck, FailsOnAFault) {
  EXPECT_FALSE(run({.flipped = {}, .suspicious = true}).passed());
}

INSTANTIATE_TEST_SUITE_P(Selftest, EachCheck,
                         testing::ValuesIn(selftest_checks().begin(), selftest_checks().end()),
                         [](const auto& row) {
                           std::string name(row.param.name);
                           std::erase_if(name,
                                         [](unsigned char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

class Waves : public testing::TestWithParam<int> {};

TEST_P(Waves, TheHostPasses) {
  HostBackend backend({.wave_width = GetParam()});
  const SelftestReport report = run_selftest(backend, {.stride = GetParam() == 32 ? 1 : 101});
  EXPECT_EQ(report.results.size(), selftest_checks().size());
  for (const SelftestResult& result : report.results) {
    EXPECT_TRUE(result.passed()) << result.name << ": " << result.first;
  }
  EXPECT_TRUE(report.passed());
}

INSTANTIATE_TEST_SUITE_P(Selftest, Waves, testing::Values(32, 64),
                         testing::PrintToStringParamName());

TEST(Selftest, ReplaysMustSeeWhatWasUploaded) {
  BrokenBackend backend({.flipped = {}, .deaf = true});
  const SelftestReport report = run_selftest(backend, kFewer);
  for (const SelftestResult& result : report.results) {
    EXPECT_EQ(result.passed(), result.name != "graph replay") << result.first;
  }
}

TEST(Selftest, CanariesMustBeLookedAt) {
  BrokenBackend backend({.flipped = {}, .silent = true});
  const SelftestReport report = run_selftest(backend, kFewer);
  for (const SelftestResult& result : report.results) {
    EXPECT_EQ(result.passed(), result.name != "canaries") << result.first;
  }
}

TEST(PlainArithmetic, RoundsOnce) {
  EXPECT_EQ(plain_fma(0x1.000002p+0F, 0x1.000002p+0F, -1.0F), 0x1.000001p-22F);
  EXPECT_EQ(plain_separate(0x1.000002p+0F, 0x1.000002p+0F, -1.0F), 0x1p-22F);
  // The exact sum lies just above a tie of binary32 that binary64 rounds to.
  EXPECT_EQ(plain_fma(0x1p-60F, 1.0F, 0x1.000001p+0F), std::fma(0x1p-60F, 1.0F, 0x1.000001p+0F));
  EXPECT_EQ(plain_fma(0x1.000002p-30F, 0x1.000002p-30F, 0x1.000002p+0F), 0x1.000002p+0F);
  EXPECT_EQ(plain_root(2.0F), 0x1.6a09e6p+0F);
  EXPECT_EQ(plain_quotient(1.0F, 3.0F), 0x1.555556p-2F);
  EXPECT_EQ(plain_quotient(0x1p-126F, 3.0F), 0x1.555558p-128F);
  EXPECT_TRUE(std::isinf(plain_quotient(1.0F, 0.0F)));
}

TEST(PlainArithmetic, AgreesWithTheProcessorsFma) {
  for (std::uint32_t i = 1; i < 20000; ++i) {
    const float a = std::ldexp(static_cast<float>(i * 2654435761U >> 8 | 1U), -24);
    const float b = std::ldexp(static_cast<float>(i * 40503U % 16777213U | 1U), -20);
    const float c = -(a * b);
    ASSERT_EQ(plain_fma(a, b, c), std::fma(a, b, c)) << i;
    ASSERT_EQ(plain_fma(a, 0x1p-140F, c * 0x1p-130F), std::fma(a, 0x1p-140F, c * 0x1p-130F)) << i;
  }
}

TEST(PlainConversion, HasTheFormatsOfTheContract) {
  const PlainConverter e4m3fnuz({"e4m3fnuz", 8, 3, 8, 0x7F, false, true});
  EXPECT_EQ(e4m3fnuz.decode(0x7F), 240.0F);
  EXPECT_TRUE(std::isnan(e4m3fnuz.decode(0x80)));
  EXPECT_EQ(e4m3fnuz.encode(-0.0F, PlainOverflow::saturate), 0U);
  EXPECT_EQ(e4m3fnuz.encode(-1e9F, PlainOverflow::saturate), 0xFFU);
  const PlainConverter bf16(kPlainBFloat16);
  EXPECT_EQ(bf16.decode(0x3F80), 1.0F);
  EXPECT_EQ(bf16.encode(0x1.01p0F, PlainOverflow::infinity), 0x3F80U);
  EXPECT_EQ(bf16.encode(0x1.03p0F, PlainOverflow::infinity), 0x3F82U);
  EXPECT_EQ(bf16.encode(std::numeric_limits<float>::max(), PlainOverflow::infinity), 0x7F80U);
  const PlainConverter fp16(kPlainFloat16);
  EXPECT_EQ(fp16.decode(0x0001), 0x1p-24F);
  EXPECT_EQ(fp16.encode(65520.0F, PlainOverflow::infinity), 0x7C00U);
  EXPECT_EQ(fp16.encode(65519.0F, PlainOverflow::infinity), 0x7BFFU);
}

}  // namespace
}  // namespace zerodiff::device
