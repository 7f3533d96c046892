#include "ddp/strategy.h"

#include "model/tensor_ops.h"

namespace gradsync::ddp {

double Strategy::SquaredNorm(std::span<model::Parameter* const> params) {
  double sum = 0;
  for (model::Parameter* const param : params) sum += model::SquaredNorm(param->grad());
  return sum;
}

}  // namespace gradsync::ddp
