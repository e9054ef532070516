// What host code and kernels agree on: shapes, switches and format codes of the kernels' scalars.
// Plain C++: included by kernels on every backend, and by the paths that launch them.
#pragma once

#include <cstdint>

namespace zerodiff::device {

inline constexpr std::int32_t kHeadElements = 128;     // D
inline constexpr std::int32_t kBlockTokens = 128;      // B: tokens of a KV block
inline constexpr std::int32_t kPageTokens = 16;        // P: tokens of a page
inline constexpr std::int32_t kRowsPerBlock = 16;      // packed rows a work-group handles
inline constexpr std::int32_t kThreadsPerBlock = 256;  // 16 lanes a row

// Values of the `kv_format` and `index_format` arguments; the odd ones are the fnuz formats.
inline constexpr std::int32_t kE4m3fn = 0;
inline constexpr std::int32_t kE4m3fnuz = 1;
inline constexpr std::int32_t kE5m2 = 2;
inline constexpr std::int32_t kE5m2fnuz = 3;

// Bits of the `switches` argument. All clear is the contract's default.
inline constexpr std::uint32_t kDivideByScale = 1U << 0;  // scale_op = divide
inline constexpr std::uint32_t kQuantizeFromFp32 = 1U << 1;
inline constexpr std::uint32_t kIndexQFromModelDtype = 1U << 2;
inline constexpr std::uint32_t kOverflowToNan = 1U << 3;
inline constexpr std::uint32_t kOverflowToInfinity = 1U << 4;
inline constexpr std::uint32_t kBlockContiguous = 1U << 5;  // kv_storage = block_contiguous
inline constexpr std::uint32_t kRebasedSlots = 1U << 6;     // K/V slots come rebased already
inline constexpr std::uint32_t kSkipIndexBranch = 1U << 7;

}  // namespace zerodiff::device
