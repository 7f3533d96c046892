#pragma once

#include <compare>
#include <dnnl.hpp>
#include <initializer_list>
#include <map>
#include <optional>

#include "model/kernels/conv.h"
#include "model/tensor/device.h"

namespace gradsync::model::kernels {

// Computes convolutions and their gradients on the CPU by the library oneDNN. A OneDnnConvs makes a oneDNN
// primitive (a prepared convolution) once for each pass, shape and pair of element types, and keeps it for
// later calls. T, the type of the elements of x, y, dy and `weight`, is float or BF16. For float, Forward,
// WeightGrad and InputGrad always return true. For BF16, these functions do nothing and return false if
// UsesBF16Instructions() is false, or oneDNN's implementation is missing, slow or known to be wrong.
class OneDnnConvs {
 public:
  explicit OneDnnConvs(Device& device);

  template <class T>
  bool Forward(const ConvShape& shape, const T* x, const T* weight, T* y);

  // Computes the gradient of the convolution's weight, and writes it to dweight or, if `accumulate`, adds it
  // to dweight.
  template <class T>
  bool WeightGrad(const ConvShape& shape, const T* x, const T* dy, float* dweight, bool accumulate);

  // Writes the gradient of the convolution's input to dx. Dx, the type of dx's elements, is T or float.
  template <class T, class Dx>
  bool InputGrad(const ConvShape& shape, const T* weight, const T* dy, Dx* dx);

  // Adds the gradient of the convolution's input to dx, for a 1 x 1 kernel with stride 1 and no padding. This
  // gradient is computed as a forward convolution of dy with the transposed weight, because oneDNN's forward
  // convolutions can add to their output, and oneDNN's backward convolutions cannot.
  void AddInputGrad(const ConvShape& shape, const float* weight, const float* dy, float* dx);

 private:
  struct Primitive {
    template <class Desc>
    explicit Primitive(const Desc& desc) : primitive(desc.get()), scratchpad(desc.scratchpad_desc()) {}

    dnnl::primitive primitive;
    dnnl::memory::desc scratchpad;
  };

  // Two oneDNN primitives: a convolution that reads the weight, and a reorder that first converts the weight
  // from the caller's layout to the convolution's.
  struct WeightReader {
    template <class Desc>
    WeightReader(const dnnl::engine& engine, const dnnl::memory::desc& stored, const Desc& desc);

    dnnl::memory::desc weight, own_weight;  // the caller's layout, the convolution's layout
    Primitive reorder;
    Primitive convolution;
  };

  // A convolution that computes the weight's gradient, and two oneDNN reorders that convert this gradient to
  // the caller's layout: `store` overwrites the destination, `add` adds to it.
  struct WeightWriter {
    WeightWriter(const dnnl::engine& engine, const dnnl::memory::desc& stored,
                 const dnnl::convolution_backward_weights::primitive_desc& desc);

    dnnl::memory::desc own_dweight;
    Primitive convolution;
    Primitive store, add;
  };

  // Identifies a oneDNN convolution: its shape, and the dtypes of its inputs (`from`) and its output (`to`).
  struct Key {
    ConvShape shape;
    dnnl::memory::data_type from, to;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // Maps each Key with which Find was called to a WeightReader or WeightWriter (the type Made). The value is
  // nullopt for a BF16 convolution that oneDNN cannot compute fast on this CPU.
  template <class Made>
  using Cache = std::map<Key, std::optional<Made>>;

  struct Argument {
    int index;
    const dnnl::memory::desc& desc;
    const void* data;
  };

  // Find returns the entry of `cache` for `key`. If `cache` has no entry for `key`, Find adds nullopt (see
  // Cache), or a Made from the two oneDNN descriptors that make() returns. The first describes the caller's
  // weight (or its gradient) in memory, the second the convolution.
  template <class Made, class Make>
  const std::optional<Made>& Find(Cache<Made>& cache, const Key& key, const Make& make);

  dnnl::convolution_forward::primitive_desc ForwardDesc(const Key& key, bool sum = false) const;
  void Execute(const Primitive& primitive, std::initializer_list<Argument> arguments);
  void Execute(const WeightReader& reader, const void* weight, Argument from, Argument to);

  Device& device_;
  const dnnl::engine engine_;
  dnnl::stream stream_;
  const bool has_bf16_;
  Cache<WeightReader> forward_, input_grad_, add_input_grad_;
  Cache<WeightWriter> weight_grad_;
};

// Returns the device's only OneDnnConvs object. Also sets the number of OpenMP threads that oneDNN uses in
// calls from this thread to device.num_threads().
OneDnnConvs& OneDnnConvsOf(Device& device);

}  // namespace gradsync::model::kernels
