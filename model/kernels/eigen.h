#ifndef GRADSYNC_MODEL_KERNELS_EIGEN_H_
#define GRADSYNC_MODEL_KERNELS_EIGEN_H_

#include <Eigen/Core>
#include <cstdint>

// Plain memory as Eigen expressions, which compute with the processor's vectors.
namespace gradsync::model::kernels::cpu {

template <class T>
using ArrayMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstArrayMap = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

// out = values, or out += values.
template <class Out, class Values>
void Store(Out&& out, const Values& values, bool accumulate) {
  if (accumulate) {
    out += values;
  } else {
    out = values;
  }
}

}  // namespace gradsync::model::kernels::cpu

#endif  // GRADSYNC_MODEL_KERNELS_EIGEN_H_
