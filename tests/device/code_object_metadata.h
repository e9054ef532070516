// What an AMD code object says of its kernels: the metadata note and the kernel descriptors (LLVM's
// AMDGPU usage guide, code object version 4 and later).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace zerodiff::device {

struct KernelArgument {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  std::string kind;  // "global_buffer", "by_value", "hidden_..."
};

struct KernelMetadata {
  std::vector<KernelArgument> arguments;
  std::int64_t argument_bytes = 0;
  std::int64_t lds_bytes = 0;      // static
  std::int64_t scratch_bytes = 0;  // private memory of a work-item
  std::int64_t max_threads = 0;
  std::int64_t wave_width = 0;
  bool dynamic_stack = false;

  // The descriptor's registers.
  std::uint32_t resource1 = 0;   // COMPUTE_PGM_RSRC1
  std::uint32_t properties = 0;  // KERNEL_CODE_PROPERTIES

  std::uint32_t float_round_mode() const { return resource1 >> 12 & 0xF; }    // 0: nearest, both
  std::uint32_t float_denorm_mode() const { return resource1 >> 16 & 0xF; }   // 15: kept, all
  bool wants_dispatch_packet() const { return (properties & 1U << 1) != 0; }  // has a block size
  bool wants_queue() const { return (properties & 1U << 2) != 0; }
};

struct CodeObjectMetadata {
  int abi_version = 0;  // ELF's: 2 is code object version 4, 3 is 5
  std::map<std::string, KernelMetadata> kernels;
};

// Throws std::runtime_error for what is no such file.
CodeObjectMetadata read_code_object(const std::filesystem::path& file);

}  // namespace zerodiff::device
