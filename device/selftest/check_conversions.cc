// Conversions of the model dtypes and of fp8: every code decoded, every code's value and every tie
// encoded.
#include <array>
#include <numeric>

#include "device/kernels/contract.h"
#include "device/selftest/plain_arithmetic.h"
#include "device/selftest/selftest_checks.h"

namespace zerodiff::device {
namespace {

struct Fp8 {
  PlainFormat format;
  std::int32_t code;  // of contract.h
};

constexpr std::array kFp8{
    Fp8{{"e4m3fn", 8, 3, 7, 0x7E, false, false}, kE4m3fn},
    Fp8{{"e4m3fnuz", 8, 3, 8, 0x7F, false, true}, kE4m3fnuz},
    Fp8{{"e5m2", 8, 2, 15, 0x7B, true, false}, kE5m2},
    Fp8{{"e5m2fnuz", 8, 2, 16, 0x7F, false, true}, kE5m2fnuz},
};

std::vector<float> values_of(const PlainConverter& converter) {
  std::vector<float> values;
  for (std::uint32_t code = 0; code < 2 * converter.format().sign(); ++code) {
    values.push_back(converter.decode(code));
  }
  return values;
}

void append(std::vector<float>& values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

void compare_codes(SelftestTally& tally, const PlainFormat& format, std::uint32_t found,
                   std::uint32_t wanted, float input) {
  const auto describe = [&] { return number_text(input) + " to " + std::string(format.name); };
  if (format.is_nan(wanted)) {
    tally.note(format.is_nan(found), [&] { return "found no NaN of " + describe(); });
  } else {
    tally.compare(std::int64_t{found}, std::int64_t{wanted}, describe);
  }
}

// A value's own code, and a pair of it (below) and its negative (above).
template <class Code, class Pair>
void compare_encoded(SelftestTally& tally, const PlainConverter& converter, PlainOverflow overflow,
                     const std::vector<float>& inputs, const std::vector<Code>& codes,
                     const std::vector<Pair>& pairs) {
  const PlainFormat& format = converter.format();
  const std::uint32_t mask = 2 * format.sign() - 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto pair = static_cast<std::uint32_t>(pairs[i]);
    const std::uint32_t wanted = converter.encode(inputs[i], overflow);
    compare_codes(tally, format, codes[i], wanted, inputs[i]);
    compare_codes(tally, format, pair & mask, wanted, inputs[i]);
    compare_codes(tally, format, pair >> format.bits & mask, converter.encode(-inputs[i], overflow),
                  -inputs[i]);
  }
}

void decode16(Backend& backend, SelftestTally& tally) {
  constexpr std::int64_t kCodes = 65536;
  LaunchList list;
  std::vector<std::uint16_t> codes(kCodes);
  std::iota(codes.begin(), codes.end(), std::uint16_t{0});
  std::vector<Argument> arguments{
      BufferArgument{add_values(list, "codes", ElementType::bfloat16, codes)}};
  std::array<BufferId, 6> outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = list.add_output("numbers" + std::to_string(i), ElementType::float32, kCodes);
    arguments.emplace_back(BufferArgument{outputs[i]});
  }
  arguments.emplace_back(static_cast<std::int32_t>(kCodes));
  list.add_launch(selftest_launch("selftest_decode16", kCodes, std::move(arguments)));
  const auto resident = backend.allocate(list);
  resident->upload();
  if (!tally.ran(resident->run())) return;
  const PlainConverter bf16(kPlainBFloat16);
  const PlainConverter fp16(kPlainFloat16);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const PlainConverter& converter = i < 3 ? bf16 : fp16;
    const std::vector<float> found = downloaded<float>(*resident, list, outputs[i]);
    for (std::uint32_t code = 0; code < kCodes; ++code) {
      tally.compare(found[code], converter.decode(code), [&] {
        return std::string(converter.format().name) + " code " + std::to_string(code);
      });
    }
  }
}

void encode16(Backend& backend, const SelftestOptions& options, SelftestTally& tally) {
  const PlainConverter bf16(kPlainBFloat16);
  const PlainConverter fp16(kPlainFloat16);
  std::vector<float> all = bf16.critical_inputs();
  append(all, fp16.critical_inputs());
  const std::vector<float> inputs = thinned(all, options.stride);
  const auto n = static_cast<std::int64_t>(inputs.size());
  LaunchList list;
  const BufferId values = add_values(list, "values", ElementType::float32, inputs);
  const BufferId bf16_codes = list.add_output("bf16", ElementType::bfloat16, n);
  const BufferId bf16_pairs = list.add_output("bf16_pair", ElementType::int32, n);
  const BufferId fp16_codes = list.add_output("fp16", ElementType::float16, n);
  const BufferId fp16_pairs = list.add_output("fp16_pair", ElementType::int32, n);
  list.add_launch(selftest_launch(
      "selftest_encode16", n,
      {BufferArgument{values}, BufferArgument{bf16_codes}, BufferArgument{bf16_pairs},
       BufferArgument{fp16_codes}, BufferArgument{fp16_pairs}, static_cast<std::int32_t>(n)}));
  const auto resident = backend.allocate(list);
  resident->upload();
  if (!tally.ran(resident->run())) return;
  compare_encoded(tally, bf16, PlainOverflow::infinity, inputs,
                  downloaded<std::uint16_t>(*resident, list, bf16_codes),
                  downloaded<std::int32_t>(*resident, list, bf16_pairs));
  compare_encoded(tally, fp16, PlainOverflow::infinity, inputs,
                  downloaded<std::uint16_t>(*resident, list, fp16_codes),
                  downloaded<std::int32_t>(*resident, list, fp16_pairs));
}

void decode8(Backend& backend, const Fp8& fp8, SelftestTally& tally) {
  constexpr std::int64_t kCodes = 256;
  LaunchList list;
  std::vector<std::int32_t> words(kCodes / 4);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::int32_t>(0x03020100U + 0x04040404U * static_cast<std::uint32_t>(i));
  }
  const BufferId codes = add_values(list, "words", ElementType::int32, words);
  const BufferId numbers = list.add_output("numbers", ElementType::float32, kCodes);
  list.add_launch(selftest_launch("selftest_decode8", kCodes / 4,
                                  {BufferArgument{codes}, BufferArgument{numbers},
                                   static_cast<std::int32_t>(kCodes), fp8.code}));
  const auto resident = backend.allocate(list);
  resident->upload();
  if (!tally.ran(resident->run())) return;
  const PlainConverter converter(fp8.format);
  const std::vector<float> found = downloaded<float>(*resident, list, numbers);
  for (std::uint32_t code = 0; code < kCodes; ++code) {
    tally.compare(found[code], converter.decode(code),
                  [&] { return std::string(fp8.format.name) + " code " + std::to_string(code); });
  }
}

void encode8(Backend& backend, const SelftestOptions& options, const Fp8& fp8,
             const std::vector<float>& values16, PlainOverflow overflow, SelftestTally& tally) {
  const PlainConverter converter(fp8.format);
  std::vector<float> all = converter.critical_inputs();
  append(all, values16);
  const std::vector<float> inputs = thinned(all, options.stride);
  const auto n = static_cast<std::int64_t>(inputs.size());
  const std::uint32_t switches = overflow == PlainOverflow::nan        ? kOverflowToNan
                                 : overflow == PlainOverflow::infinity ? kOverflowToInfinity
                                                                       : 0;
  LaunchList list;
  const BufferId values = add_values(list, "values", ElementType::float32, inputs);
  const BufferId codes = list.add_output("codes", ElementType::float8_e4m3fn, n);
  const BufferId pairs = list.add_output("pairs", ElementType::bfloat16, n);
  list.add_launch(
      selftest_launch("selftest_encode8", n,
                      {BufferArgument{values}, BufferArgument{codes}, BufferArgument{pairs},
                       static_cast<std::int32_t>(n), fp8.code, switches}));
  const auto resident = backend.allocate(list);
  resident->upload();
  if (!tally.ran(resident->run())) return;
  compare_encoded(tally, converter, overflow, inputs,
                  downloaded<std::uint8_t>(*resident, list, codes),
                  downloaded<std::uint16_t>(*resident, list, pairs));
}

}  // namespace

SelftestResult check_conversions16(Backend& backend, const SelftestOptions& options) {
  SelftestTally tally("16-bit conversions", "every code; every value, every tie and neighbours");
  decode16(backend, tally);
  encode16(backend, options, tally);
  return std::move(tally).result();
}

SelftestResult check_conversions8(Backend& backend, const SelftestOptions& options) {
  SelftestTally tally("8-bit conversions", "every code; every tie and every 16-bit value");
  std::vector<float> values16 = values_of(PlainConverter(kPlainBFloat16));
  append(values16, values_of(PlainConverter(kPlainFloat16)));
  for (const Fp8& fp8 : kFp8) {
    decode8(backend, fp8, tally);
    encode8(backend, options, fp8, values16, PlainOverflow::saturate, tally);
    encode8(backend, options, fp8, values16, PlainOverflow::nan, tally);
    if (fp8.code == kE5m2) {
      encode8(backend, options, fp8, values16, PlainOverflow::infinity, tally);
    }
  }
  return std::move(tally).result();
}

}  // namespace zerodiff::device
