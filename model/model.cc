#include "model/model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/safetensors.h"

namespace gradsync::model {

void LoadParameters(std::span<Parameter* const> params, const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::Open(path);
  for (const Parameter* param : params) {
    const SafetensorsFile::Entry* entry = file.Find(param->name());
    Require(entry != nullptr, path, ": there is no tensor '", param->name(), "' (", file.entries().size(),
            " others are there)");
    const Tensor& value = param->value();
    Require(entry->shape == value.shape() && entry->dtype == value.dtype(), path, ": tensor '", param->name(),
            "' is ", ToString(entry->shape), " ", Name(entry->dtype), ", the model's is ",
            ToString(value.shape()), " ", Name(value.dtype()));
  }
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    const bool known =
        std::ranges::any_of(params, [&](const Parameter* p) { return p->name() == entry.name; });
    Require(known, path, ": tensor '", entry.name, "' is no parameter of the model");
  }
  for (const Parameter* param : params) file.LoadInto(param->name(), param->value());
}

void SaveParameters(std::span<Parameter* const> params, const std::string& path) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Parameter* param : params) tensors.emplace_back(param->name(), param->value());
  WriteSafetensors(path, tensors);
}

}  // namespace gradsync::model
