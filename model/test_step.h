#pragma once

#include "model/model.h"
#include "model/optimizer.h"

// Functions for tests: Step takes a training step of any model; LossOf returns the loss of a model on a
// batch. LossOf throws InvalidInput if the dtype of the loss is not f32.
namespace gradsync::model {

// Takes one training step on `batch` (forward, backward, update), and returns the loss before the update. On
// CUDA the call may return before the GPU has computed the loss.
inline Tensor Step(Model& model, Optimizer& optimizer, const Batch& batch) {
  for (Parameter* p : model.parameters()) p->ResetGrad();
  const Var loss = model.Loss(batch);
  Backward(loss, model.parameters());
  optimizer.Step();
  return loss.value();
}

inline float LossOf(Model& model, const Batch& batch) {
  return model.Loss(batch).value().ToVector<float>()[0];
}

}  // namespace gradsync::model
