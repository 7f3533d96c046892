#include "model/model.h"

#include <algorithm>
#include <utility>

#include "model/files/safetensors.h"

namespace gradsync::model {
namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

NamedTensors ByName(std::span<Parameter* const> params, std::span<const Buffer> buffers) {
  NamedTensors tensors;
  for (const Parameter* param : params) tensors.emplace_back(param->name(), param->value());
  for (const Buffer& buffer : buffers) tensors.emplace_back(buffer.name, buffer.value);
  return tensors;
}

}  // namespace

void LoadParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers) {
  const SafetensorsFile file = SafetensorsFile::Open(path);
  for (const Parameter* param : params) {
    Require(file.Find(param->name()) != nullptr, path, ": there is no tensor '", param->name(), "' (",
            file.entries().size(), " others are there)");
  }
  const NamedTensors tensors = ByName(params, buffers);
  for (const auto& [name, value] : tensors) {
    const SafetensorsFile::Entry* entry = file.Find(name);
    if (entry == nullptr) continue;
    Require(entry->shape == value.shape() && entry->dtype == value.dtype(), path, ": tensor '", name, "' is ",
            entry->shape, " ", Name(entry->dtype), ", the model's is ", value.shape(), " ",
            Name(value.dtype()));
  }
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    const bool known =
        std::ranges::any_of(tensors, [&](const auto& named) { return named.first == entry.name; });
    Require(known, path, ": tensor '", entry.name, "' is neither a parameter nor a buffer of the model");
  }
  for (Parameter* param : params) file.LoadInto(param->name(), param->MutableValue());
  for (const Buffer& buffer : buffers) {
    if (file.Find(buffer.name) != nullptr) file.LoadInto(buffer.name, buffer.value);
  }
}

void SaveParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers) {
  WriteSafetensors(path, ByName(params, buffers));
}

}  // namespace gradsync::model
