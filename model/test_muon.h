#ifndef GRADSYNC_MODEL_TEST_MUON_H_
#define GRADSYNC_MODEL_TEST_MUON_H_

#include <algorithm>
#include <cmath>
#include <eigen3/Eigen/Dense>

// For tests: an independent implementation of the Muon optimizer for one matrix, in f64.
namespace gradsync::model {

using ReferenceMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Returns U g(S) V^T, where u = U S V^T is the singular value decomposition of `u`. For a singular value s,
// g(s) is f(f(f(f(f(s / (F + 1e-7)))))), where F is the Frobenius norm of `u`. The function f is f(x) =
// 3.4445 x - 4.7750 x^3 + 2.0315 x^5.
inline ReferenceMatrix Orthogonalized(const ReferenceMatrix& u) {
  const Eigen::JacobiSVD<ReferenceMatrix> svd(u, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Eigen::VectorXd s = svd.singularValues() / (u.norm() + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const Eigen::ArrayXd x = s.array();
    s = 3.4445 * x - 4.7750 * x.pow(3) + 2.0315 * x.pow(5);
  }
  return svd.matrixU() * s.asDiagonal() * svd.matrixV().transpose();
}

struct MuonReference {
  double rate, decay;
  ReferenceMatrix mean = {};

  // Returns the factor by which Next multiplies the orthogonalized momentum: 0.2 rate sqrt(max(rows,
  // columns)).
  double SizeOf(const ReferenceMatrix& value) const {
    return rate * 0.2 * std::sqrt(static_cast<double>(std::max(value.rows(), value.cols())));
  }
  ReferenceMatrix Next(const ReferenceMatrix& value, const ReferenceMatrix& grad) {
    if (mean.size() == 0) mean = ReferenceMatrix::Zero(grad.rows(), grad.cols());
    mean = 0.95 * mean + 0.05 * grad;
    return value - rate * decay * value - SizeOf(value) * Orthogonalized(0.05 * grad + 0.95 * mean);
  }
};

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_TEST_MUON_H_
