#pragma once

#include <compare>
#include <dnnl.hpp>
#include <initializer_list>
#include <map>
#include <optional>

#include "model/kernels/conv.h"
#include "model/tensor/device.h"

namespace gradsync::model::kernels {

// Computes the convolutions of a device by oneDNN, with primitives that are made once per shape and types. T
// is float or BF16. For BF16 a call does nothing and returns false if this processor has no instructions for
// BF16, or if oneDNN has no correct implementation; for float a call returns true.
class OneDnnConvs {
 public:
  explicit OneDnnConvs(Device& device);

  template <class T>
  bool Forward(const ConvShape& shape, const T* x, const T* weight, T* y);

  // Sets dweight to the gradient, or adds the gradient to dweight.
  template <class T>
  bool WeightGrad(const ConvShape& shape, const T* x, const T* dy, float* dweight, bool accumulate);

  // Sets dx to the gradient. Dx is T or float.
  template <class T, class Dx>
  bool InputGrad(const ConvShape& shape, const T* weight, const T* dy, Dx* dx);

  // Adds the gradient to dx, for a 1 x 1 kernel with stride 1. This is a matrix product at each pixel, so the
  // backward pass is a forward pass with the transposed weight. A forward convolution can add to its output;
  // oneDNN's backward convolution cannot.
  void AddInputGrad(const ConvShape& shape, const float* weight, const float* dy, float* dx);

 private:
  // A primitive and the scratch memory that it needs.
  struct Primitive {
    template <class Desc>
    explicit Primitive(const Desc& desc) : primitive(desc.get()), scratchpad(desc.scratchpad_desc()) {}

    dnnl::primitive primitive;
    dnnl::memory::desc scratchpad;
  };

  // A convolution that reads the weight, and the reorder that converts the weight to its layout.
  struct WeightReader {
    template <class Desc>
    WeightReader(const dnnl::engine& engine, const dnnl::memory::desc& stored, const Desc& desc);

    dnnl::memory::desc weight, own_weight;  // layout in memory, layout of the convolution
    Primitive reorder;
    Primitive convolution;
  };

  // A convolution that computes the weight's gradient, and the reorders that write it to its destination.
  struct WeightWriter {
    WeightWriter(const dnnl::engine& engine, const dnnl::memory::desc& stored,
                 const dnnl::convolution_backward_weights::primitive_desc& desc);

    dnnl::memory::desc own_dweight;
    Primitive convolution;
    Primitive store, add;
  };

  // The key of a primitive: shape, types of the operands, and type of the output (the activation or its
  // gradient).
  struct Key {
    ConvShape shape;
    dnnl::memory::data_type from, to;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // Primitives by key; nullopt if oneDNN does not implement a key.
  template <class Made>
  using Cache = std::map<Key, std::optional<Made>>;

  struct Argument {
    int index;
    const dnnl::memory::desc& desc;
    const void* data;
  };

  // Returns the result of make() for this key.
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

// Returns the device's convolutions, for this thread.
OneDnnConvs& OneDnnConvsOf(Device& device);

}  // namespace gradsync::model::kernels
