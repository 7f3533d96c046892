#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/autograd.h"
#include "model/tensor/tensor.h"

namespace gradsync::model {

// The training data of one step; the first dimension counts sequences or images. For a language model, inputs
// are token ids and targets are the next ids, both i32 (batch, seq). For an image model, inputs are images
// (batch, channels, height, width) and targets are numbers (batch, classes).
struct Batch {
  Tensor inputs;
  Tensor targets;
};

// State that the forward pass changes and that is not trained, such as a running mean.
struct Buffer {
  std::string name;
  Tensor value;
};

// A model that can be trained: it has parameters and a loss.
class Model {
 public:
  virtual ~Model() = default;

  virtual std::string_view name() const = 0;
  // Returns the parameters in forward order, layer by layer.
  virtual std::span<Parameter* const> parameters() const = 0;
  // Returns groups of parameters (units) that can be loaded and freed together, in forward order. An
  // operation reads parameters of at most one unit, and forward has finished with a unit when it reads the
  // next unit. Parameters of no unit may be read at any time. By default all parameters are one unit.
  virtual std::vector<std::vector<Parameter*>> units() const {
    return {{parameters().begin(), parameters().end()}};
  }
  // Returns the buffers in forward order: tensors that belong to the model but are not trained, such as the
  // running means of batch normalization. The caller keeps the buffers of several replicas equal.
  virtual std::span<const Buffer> buffers() const { return {}; }
  // Runs the forward pass, and returns the mean loss over the batch, of shape (). Throws InvalidInput for a
  // batch of wrong shapes or dtypes.
  virtual Var Loss(const Batch& batch) = 0;
};

// Overwrites every parameter's value with the tensor of its name in a safetensors file, and every buffer's
// value if the file has this buffer. Checkpoints of other frameworks may lack buffers. Throws InvalidInput,
// naming the file and the tensor, for a missing parameter, an unknown tensor, or a wrong shape or dtype; then
// nothing has been loaded.
void LoadParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers = {});

// Writes the value of every parameter, and then of every buffer, under its name.
void SaveParameters(std::span<Parameter* const> params, const std::string& path,
                    std::span<const Buffer> buffers = {});

}  // namespace gradsync::model
