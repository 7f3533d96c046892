#include "ddp/lossy/low_rank.h"

#include <algorithm>
#include <eigen3/Eigen/Core>

#include "model/base/error.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {
namespace {

using Matrix = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

Matrix AsMatrix(const model::Tensor& tensor) { return {tensor.data<float>(), tensor.dim(0), tensor.dim(1)}; }

// Orthonormalises rows by Gram and Schmidt. There are fewer rows than columns. A row that depends on earlier
// rows, except for rounding, is replaced by the first unit vector that is independent of them. Otherwise Q
// would have a lower rank forever after a gradient of lower rank, or of zeros. A NaN stays in its row: it is
// not below any length.
void Orthonormalise(Matrix rows) {
  constexpr float kIndependent = 1e-4f;  // relative to the length of a row
  for (int64_t k = 0; k < rows.rows(); ++k) {
    auto row = rows.row(k);
    const auto subtract_earlier = [&] {
      for (int64_t i = 0; i < k; ++i) row -= row.dot(rows.row(i)) * rows.row(i);
    };
    float length = row.norm();
    subtract_earlier();
    for (int64_t unit = 0; row.norm() <= kIndependent * length; ++unit) {
      row.setZero();
      row(unit) = length = 1;
      subtract_earlier();
    }
    subtract_earlier();  // The second call removes rounding errors.
    row.normalize();
  }
}

}  // namespace

LowRank::LowRank(model::Parameter& param, int64_t rank, double min_compression, uint64_t stream)
    : param_(&param),
      rank_(rank),
      rows_(param.shape().empty() ? 1 : std::max<int64_t>(1, param.shape()[0])),
      columns_(param.numel() / rows_),
      min_compression_(min_compression),
      stream_(stream) {
  Require(min_compression >= 1, "low rank: min_compression is ", min_compression, ", expected at least 1");
  if (!is_whole()) error_ = model::Tensor::Empty(param.device(), {rows_, columns_}, param.dtype());
}

void LowRank::PlaceP(const model::Tensor& storage, int64_t offset) {
  p_ = storage.Slice(offset, is_whole() ? param_->shape() : model::Shape{rank_, rows_});
}

void LowRank::PlaceQ(const model::Tensor& storage, int64_t offset) {
  q_ = storage.Slice(offset, {rank_, columns_});
}

void LowRank::MakeP() {
  if (is_whole()) return p_.CopyFrom(param_->grad());
  AddTo(param_->grad().View(error_.shape()), error_);
  AsMatrix(p_).noalias() = AsMatrix(q_) * AsMatrix(error_).transpose();
}

void LowRank::MakeQ() {
  if (is_whole()) return;
  Orthonormalise(AsMatrix(p_));
  AsMatrix(q_).noalias() = AsMatrix(p_) * AsMatrix(error_);
}

void LowRank::Finish() {
  if (is_whole()) return param_->grad().CopyFrom(p_);
  Matrix grad = AsMatrix(param_->grad().View(error_.shape()));
  grad.noalias() = AsMatrix(p_).transpose() * AsMatrix(q_);
  AsMatrix(error_) -= grad;
}

void LowRank::Reset() {
  if (is_whole()) return;
  error_.Zero();
  FillTruncatedNormal(q_, 1, 0, model::StreamOf(model::Purpose::kLowRank, stream_));
}

}  // namespace gradsync::ddp
