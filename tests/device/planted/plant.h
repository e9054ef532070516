// Turns ZERODIFF_PLANT on. Included before any kernel by the planted build of the kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "device/kernels/contract.h"
#include "device/platform/platform.hip.h"
#include "tests/device/planted/planted_bug.h"

#define ZERODIFF_PLANTED_KERNELS
#define ZERODIFF_KERNEL_SET planted_kernels
#define ZERODIFF_PLANT(bug, correct, faulty)                                             \
  (::zerodiff::device::planted::active == ::zerodiff::device::PlantedBug::bug ? (faulty) \
                                                                              : (correct))

// What faulty expressions are made of. Types of the kernels are template parameters, since this
// comes before them.
namespace zerodiff::device::planted {

inline float as_bfloat16(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  if (std::isnan(value)) return value;
  return bits_as<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000);
}

// `anchor` is 2^23 steps of the format.
inline float truncated(float magnitude, float anchor) {
  const float step = anchor * 0x1p-23F;
  return std::floor(magnitude / step) * step;
}
inline float rounded_half_away(float magnitude, float anchor) {
  const float step = anchor * 0x1p-23F;
  return std::floor(magnitude / step + 0.5F) * step;
}

// The nearest e4m3fn number, of 0 to 1.
inline float as_e4m3(float value) {
  if (!(value > 0) || value > 1) return value;
  const float step = std::ldexp(1.0F, std::max(std::ilogb(value), -6) - 3);
  return std::rint(value / step) * step;
}

inline std::int32_t at_most(std::int32_t count, std::int32_t most) {
  return std::min(count, most);
}
inline std::int32_t one_less(std::int32_t count) {
  return std::max(count - 1, 0);
}
inline std::int32_t all_of(std::int32_t count, std::int32_t topk) {
  return count == 0 ? 0 : topk;
}
inline std::int32_t power_of_two(std::int32_t count) {
  return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(count)));
}

// One token less where one kernel is wrong for its cell of (context, group).
inline std::int32_t cliff(std::int32_t context, std::int32_t group, std::int32_t tokens) {
  const bool falls = context >= 241 && context <= 255 && group > 1 && tokens > 1;
  return falls ? tokens - 1 : tokens;
}

inline std::uint32_t early_saturated(std::uint32_t code, float largest, std::uint32_t dropped) {
  const std::uint32_t largest_code = bits_as<std::uint32_t>(largest) >> dropped;
  return code >= (largest_code & 0x78) ? largest_code : code;
}

inline std::uint32_t unclamped_shift(std::uint32_t magnitude, std::uint32_t code,
                                     std::uint32_t dropped, std::uint32_t smallest_normal) {
  const std::uint32_t distance = dropped + (smallest_normal >> 23) - (magnitude >> 23);
  if (magnitude >= smallest_normal || distance < 32) return code;
  return (((magnitude & 0x7FFFFF) | 0x800000) >> (distance & 31)) & 7;
}

inline std::uint32_t numeric_byte(float value) {
  const float bounded = std::fmin(std::fmax(std::rint(value), -128.0F), 127.0F);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(bounded)) & 0xFF;
}

template <class Factor>
Factor unit_scale(Factor factor) {
  factor.factor = 1;
  return factor;
}

template <class Rope>
Rope unrotated(Rope rope) {
  rope.rotated = false;
  return rope;
}

inline std::int64_t last_slot(std::int64_t row) {
  return row < num_rows ? pool_slots - 1 : -1;
}
inline std::int64_t slot_zero(std::int64_t row) {
  return row < num_rows ? 0 : -1;
}

template <class Row>
Row even_row(Row row) {
  row.row -= row.row % 2;
  return row;
}

template <class Row>
Row first_row(Row row) {
  row.row = 0;
  return row;
}

inline std::int64_t wrapped_to_32_bits(std::int64_t offset) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(offset));
}

// Where x = 16 puts a lane's 8 elements of a 16-bit K row, whose granule is `granule`.
template <class Lane>
std::int64_t k_place_x16(std::int64_t granule, std::int64_t slot, Lane lane) {
  const std::int64_t offset = slot % kPageTokens;
  const std::int64_t page = granule - lane.lane * 128 - offset * 8;
  return page + lane.lane / 2 * 256 + offset * 16 + lane.lane % 2 * 8;
}

template <class Lane>
std::int64_t flat_place(std::int64_t slot, std::int32_t kv_head, std::int32_t num_kv_heads,
                        Lane lane) {
  return (slot * num_kv_heads + kv_head) * kHeadElements + lane.lane * 8;
}

inline std::int32_t k_order(std::int32_t d, std::int32_t x) {
  return d / x * (kPageTokens * x) + d % x;
}

// This lane's elements of a head as they came in.
template <class Arguments, class Layout, class Reader>
auto packed_slice(const Arguments& args, const Layout& layout, std::int32_t head,
                  const Reader& reader) {
  const std::int64_t place =
      reader.state.row * layout.pitch + head * kHeadElements + reader.state.lane.lane * 8;
  return load_slice(args.packed + place, reader.state.present);
}

template <class Codes, class Arguments, class Layout, class Reader>
Codes crossed(const Codes& codes, const Arguments& args, const Layout& layout,
              const Reader& reader) {
  return reader.state.lane.lane < 8 ? codes : packed_slice(args, layout, layout.first_k, reader);
}

}  // namespace zerodiff::device::planted
