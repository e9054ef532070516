#include "tests/device/code_object_metadata.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

namespace zerodiff::device {
namespace {

constexpr std::uint32_t kMetadataNote = 32;  // NT_AMDGPU_METADATA
constexpr std::size_t kResource1Offset = 48;
constexpr std::size_t kPropertiesOffset = 56;

using Json = nlohmann::json;
using Bytes = std::vector<char>;

template <class T>
T read(const Bytes& bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) {
    throw std::runtime_error("code object: a structure reaches past the end");
  }
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Bytes read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error(file.string() + " is not there");
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t aligned4(std::size_t size) {
  return (size + 3) / 4 * 4;
}

// The MessagePack of the metadata note.
Json metadata_of(const Bytes& bytes, const Elf64_Ehdr& header) {
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type != PT_NOTE) continue;
    for (std::size_t at = segment.p_offset; at < segment.p_offset + segment.p_filesz;) {
      const auto note = read<Elf64_Nhdr>(bytes, at);
      const std::size_t content = at + sizeof(note) + aligned4(note.n_namesz);
      if (note.n_type == kMetadataNote) {
        const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(content);
        return Json::from_msgpack(begin, begin + static_cast<std::ptrdiff_t>(note.n_descsz));
      }
      at = content + aligned4(note.n_descsz);
    }
  }
  throw std::runtime_error("code object: no metadata note");
}

// File offsets of dynamic symbols; addresses and offsets agree in the read-only segment.
std::map<std::string, std::size_t> symbols_of(const Bytes& bytes, const Elf64_Ehdr& header) {
  std::map<std::string, std::size_t> symbols;
  const auto section = [&](std::size_t index) {
    return read<Elf64_Shdr>(bytes, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr names = section(table.sh_link);
    for (std::size_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(bytes, table.sh_offset + at);
      if (symbol.st_shndx == SHN_UNDEF) continue;
      const Elf64_Shdr home = section(symbol.st_shndx);
      symbols[bytes.data() + names.sh_offset + symbol.st_name] =
          symbol.st_value - home.sh_addr + home.sh_offset;
    }
  }
  return symbols;
}

KernelMetadata kernel_of(const Json& json) {
  KernelMetadata kernel;
  for (const Json& argument : json.value(".args", Json::array())) {
    kernel.arguments.push_back(
        {argument.at(".offset"), argument.at(".size"), argument.at(".value_kind")});
  }
  kernel.argument_bytes = json.at(".kernarg_segment_size");
  kernel.lds_bytes = json.at(".group_segment_fixed_size");
  kernel.scratch_bytes = json.at(".private_segment_fixed_size");
  kernel.max_threads = json.at(".max_flat_workgroup_size");
  kernel.wave_width = json.at(".wavefront_size");
  kernel.dynamic_stack = json.value(".uses_dynamic_stack", false);
  return kernel;
}

}  // namespace

CodeObjectMetadata read_code_object(const std::filesystem::path& file) {
  const Bytes bytes = read_file(file);
  const auto header = read<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    throw std::runtime_error(file.string() + " is no ELF file");
  }
  CodeObjectMetadata metadata{.abi_version = header.e_ident[EI_ABIVERSION], .kernels = {}};
  const auto symbols = symbols_of(bytes, header);
  const Json document = metadata_of(bytes, header);
  for (const Json& json : document.at("amdhsa.kernels")) {
    KernelMetadata kernel = kernel_of(json);
    const std::size_t descriptor = symbols.at(json.at(".symbol"));
    kernel.resource1 = read<std::uint32_t>(bytes, descriptor + kResource1Offset);
    kernel.properties = read<std::uint16_t>(bytes, descriptor + kPropertiesOffset);
    metadata.kernels.emplace(json.at(".name"), std::move(kernel));
  }
  return metadata;
}

}  // namespace zerodiff::device
