// oneDNN 3's way of describing a primitive, for oneDNN 2 (Debian 12): the primitives that gradsync uses,
// without bias. It stands before the library's own header of this name where that is oneDNN 2's; see
// system_library.bzl.
#ifndef GRADSYNC_THIRD_PARTY_ONEDNN_2_DNNL_HPP_
#define GRADSYNC_THIRD_PARTY_ONEDNN_2_DNNL_HPP_

// The C++ interface is headers only, so its namespace may have another name here.
#define dnnl dnnl_2
#include_next <dnnl.hpp>
#undef dnnl

namespace dnnl {

using namespace dnnl_2;

struct matmul : dnnl_2::matmul {
  using dnnl_2::matmul::matmul;

  struct primitive_desc : dnnl_2::matmul::primitive_desc {
    primitive_desc(const engine& on, const memory::desc& src, const memory::desc& weights,
                   const memory::desc& dst, const primitive_attr& attr = {})
        : dnnl_2::matmul::primitive_desc(dnnl_2::matmul::desc(src, weights, dst), attr, on) {}
  };
};

struct convolution_forward : dnnl_2::convolution_forward {
  using dnnl_2::convolution_forward::convolution_forward;

  struct primitive_desc : dnnl_2::convolution_forward::primitive_desc {
    primitive_desc(const engine& on, prop_kind kind, algorithm how, const memory::desc& src,
                   const memory::desc& weights, const memory::desc& dst, const memory::dims& strides,
                   const memory::dims& padding_l, const memory::dims& padding_r,
                   const primitive_attr& attr = {})
        : dnnl_2::convolution_forward::primitive_desc(
              dnnl_2::convolution_forward::desc(kind, how, src, weights, dst, strides, padding_l, padding_r),
              attr, on) {}
  };
};

// Both backward passes. Of their three descriptions two are gradients'.
template <class Of>
struct backward_convolution : Of {
  using Of::Of;

  struct primitive_desc : Of::primitive_desc {
    primitive_desc(const engine& on, algorithm how, const memory::desc& src, const memory::desc& weights,
                   const memory::desc& dst, const memory::dims& strides, const memory::dims& padding_l,
                   const memory::dims& padding_r, const convolution_forward::primitive_desc& forward,
                   const primitive_attr& attr = {})
        : Of::primitive_desc(typename Of::desc(how, src, weights, dst, strides, padding_l, padding_r), attr,
                             on, forward) {}
  };
};
using convolution_backward_data = backward_convolution<dnnl_2::convolution_backward_data>;
using convolution_backward_weights = backward_convolution<dnnl_2::convolution_backward_weights>;

}  // namespace dnnl

#endif  // GRADSYNC_THIRD_PARTY_ONEDNN_2_DNNL_HPP_
