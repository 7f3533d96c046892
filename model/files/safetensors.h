#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/tensor/tensor.h"

// Named tensors in a file, in Hugging Face's safetensors format:
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//             "__metadata__": {"key": "value"}}, may be padded with spaces
//   data      the tensors, row-major, little-endian; offsets count from here; no gaps and no overlaps
//
// Supported dtypes: F32, F64, BF16, I32, I64, U8.
namespace gradsync::model {

// An open safetensors file, whose header has been checked completely. Two threads must not use one
// SafetensorsFile at the same time.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::kF32;
    Shape shape;
    uint64_t offset_bytes = 0;  // offset from the beginning of the file
    uint64_t size_bytes = 0;
  };

  // Opens the file `path` and reads its header. Throws InvalidInput if the file cannot be opened, is not a
  // valid safetensors file, or has a tensor whose dtype is not supported. Throws std::runtime_error if
  // reading fails.
  static SafetensorsFile Open(std::string path) { return SafetensorsFile(std::move(path)); }

  const std::string& path() const { return path_; }
  // Returns the name, dtype, shape, offset and size of each tensor, in the order of the tensors' data in the
  // file.
  const std::vector<Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Returns the entry of the tensor `name`; null if the file has no such tensor.
  const Entry* Find(std::string_view name) const;

  // Reads the tensor `name` into new memory on `device`. Throws InvalidInput if the file has no tensor
  // `name`, and std::runtime_error if reading fails.
  Tensor Load(std::string_view name, const DevicePtr& device) const;
  // Reads the tensor `name` into the tensor `target`. Throws the same errors as Load, and also InvalidInput
  // if the shape or dtype of `target` differs from that of the tensor in the file.
  void LoadInto(std::string_view name, const Tensor& target) const;

 private:
  explicit SafetensorsFile(std::string path);

  const Entry& Get(std::string_view name) const;
  void Read(uint64_t offset_bytes, std::span<std::byte> into) const;

  std::string path_;
  mutable std::ifstream file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Writes tensors in the given order to a temporary file, and renames it to `path` when it is complete and on
// disk. Throws InvalidInput if the file cannot be created, two tensors have the same name, or a name or the
// metadata is not UTF-8. Also throws InvalidInput if a tensor is undefined or has the name "__metadata__".
// Throws std::runtime_error if writing or renaming fails.
void WriteSafetensors(const std::string& path, std::span<const std::pair<std::string, Tensor>> tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace gradsync::model
