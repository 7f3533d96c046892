#include "ddp/interface/strategy.h"

#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {

double Strategy::SquaredNorm(std::span<model::Parameter* const> params) {
  std::vector<model::Tensor> grads;
  for (model::Parameter* const param : params) {
    if (!param->frozen()) grads.push_back(param->grad());
  }
  return model::SquaredNorm(grads);
}

}  // namespace gradsync::ddp
