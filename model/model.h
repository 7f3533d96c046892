#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/autograd.h"
#include "model/tensor/tensor.h"

namespace gradsync::model {

// The training data of one rank for one step, or for one of the forward passes whose gradients a step sums.
// For a language model, inputs are token ids and targets are the token ids one position later, both i32
// (batch, seq). For an image model, inputs are images (batch, channels, height, width) and targets are real
// numbers (batch, classes).
struct Batch {
  Tensor inputs;
  Tensor targets;
};

// A tensor that the forward pass changes and that is not trained, such as batch normalisation's running mean.
struct Buffer {
  std::string name;
  Tensor value;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::string_view name() const = 0;
  // Returns the parameters, layer by layer in forward order. The parameters within a layer may be in another
  // order.
  virtual std::span<Parameter* const> parameters() const = 0;
  // Returns groups of parameters (units), such as those of one layer, in the order in which the forward pass
  // reads them. Training strategies that leave each rank only a part of the parameters, like PyTorch's
  // fully_shard, gather the parameters of a unit from all ranks before the model reads them. After the model
  // has read a unit's parameters, such a strategy may overwrite them with the parameters of another unit. So
  // an operation must not read parameters of two different units. Forward must read the units in the order of
  // the list that units() returns: after it has read one unit, it must not read earlier units of the list.
  // Parameters that are in no unit may be read at any time.
  virtual std::vector<std::vector<Parameter*>> units() const {
    return {{parameters().begin(), parameters().end()}};
  }
  // Returns the model's buffers (struct Buffer), in the order of their layers' parameters in parameters().
  // The same buffer may have different values on different ranks, because the model does not synchronise
  // buffers.
  virtual std::span<const Buffer> buffers() const { return {}; }
  // Runs the forward pass, and returns a scalar (shape ()): the mean of the losses of all elements of
  // batch.targets. Throws InvalidInput if the batch has wrong shapes or dtypes. On the CPU, also throws
  // InvalidInput for token ids or targets outside of the vocabulary.
  virtual Var Loss(const Batch& batch) = 0;
};

// Overwrites every parameter of `params` with the tensor of the same name in the safetensors file `path`.
// Also overwrites every buffer of `buffers` that is in the file. If the file lacks a parameter, or has an
// unknown tensor or a tensor of wrong shape or dtype, throws InvalidInput and loads nothing.
void LoadParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers = {});

// Writes the safetensors file `path` with the values of `params` and `buffers` under their names.
void SaveParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers = {});

}  // namespace gradsync::model
