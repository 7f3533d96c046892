#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/autograd.h"
#include "model/tensor/tensor.h"

namespace gradsync::model {

// The training data of one step. For a language model, inputs are token ids and targets are the token ids one
// position later, both i32 (batch, seq). For an image model, inputs are images (batch, channels, height,
// width) and targets are real numbers (batch, classes).
struct Batch {
  Tensor inputs;
  Tensor targets;
};

// A tensor of a model that is not trained, and that the forward pass changes, such as the running mean of
// batch normalisation.
struct Buffer {
  std::string name;
  Tensor value;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::string_view name() const = 0;
  // Returns the parameters in the order in which forward uses them.
  virtual std::span<Parameter* const> parameters() const = 0;
  // Returns groups of parameters (units) in forward order, for training in which each unit is gathered before
  // it is used and freed afterwards, as in PyTorch's fully_shard. Each operation reads parameters of at most
  // one unit, and forward reads no parameter of a unit after one of the next unit. Parameters that are in no
  // unit may be read at any time. By default all parameters are one unit.
  virtual std::vector<std::vector<Parameter*>> units() const {
    return {{parameters().begin(), parameters().end()}};
  }
  // Returns the buffers in forward order. In data-parallel training, the model does not keep the buffers of
  // different ranks equal; the caller does this.
  virtual std::span<const Buffer> buffers() const { return {}; }
  // Runs the forward pass, and returns the mean loss over the batch, of shape (). Throws InvalidInput if the
  // batch has wrong shapes or dtypes.
  virtual Var Loss(const Batch& batch) = 0;
};

// Overwrites every parameter with the tensor of its name in a safetensors file, and likewise every buffer
// that is in the file (checkpoints of other frameworks may lack buffers). Throws InvalidInput, naming the
// file and the tensor, if a parameter is missing in the file, or if the file has an unknown tensor or one of
// wrong shape or dtype; then nothing has been loaded.
void LoadParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers = {});

// Writes a safetensors file with the values of all parameters and buffers under their names.
void SaveParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers = {});

}  // namespace gradsync::model
