#include "model/kernels/conv_onednn.h"

#include <omp.h>

#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "model/kernels/onednn.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

using dnnl::memory;

memory::desc Describe(const ActivationShape& shape, memory::data_type type) {
  const memory::format_tag tag = shape.block == 16  ? memory::format_tag::nChw16c
                                 : shape.block == 8 ? memory::format_tag::nChw8c
                                                    : memory::format_tag::nchw;
  return {{shape.batch, shape.channels, shape.height, shape.width}, type, tag};
}

memory::desc DescribeWeight(const ConvShape& shape, memory::data_type type, memory::format_tag tag) {
  return {{shape.out_channels, shape.in.channels, shape.size, shape.size}, type, tag};
}

memory::desc Stored(const ConvShape& shape, memory::data_type type) {
  return DescribeWeight(shape, type, memory::format_tag::oihw);
}

// The layouts of a convolution's operands or of their gradients, from its forward or backward descriptor.
struct Operands {
  Operands(const ConvShape& shape, memory::data_type x_type, memory::data_type weight_type,
           memory::data_type y_type)
      : x(Describe(shape.in, x_type)),
        weight(DescribeWeight(shape, weight_type, memory::format_tag::any)),
        y(Describe(shape.out(), y_type)),
        stride{shape.stride, shape.stride},
        padding{shape.padding, shape.padding} {}

  const memory::desc x, weight, y;
  const memory::dims stride, padding;
};

// Backward is the type convolution_backward_data or convolution_backward_weights.
template <class Backward>
typename Backward::primitive_desc BackwardDesc(const dnnl::engine& engine, const Operands& of,
                                               const dnnl::convolution_forward::primitive_desc& forward) {
  return typename Backward::primitive_desc(engine, dnnl::algorithm::convolution_direct, of.x, of.weight, of.y,
                                           of.stride, of.padding, of.padding, forward, OneDnnAttributes());
}

// Returns whether the implementation consists of plain loops, which oneDNN uses if it has nothing better, and
// which are much slower than f32.
bool IsReference(const char* implementation) { return std::string_view(implementation).starts_with("ref"); }

}  // namespace

template <class Desc>
OneDnnConvs::WeightReader::WeightReader(const dnnl::engine& engine, const memory::desc& stored,
                                        const Desc& desc)
    : weight(stored),
      own_weight(desc.weights_desc()),
      reorder(dnnl::reorder::primitive_desc(engine, weight, engine, own_weight, OneDnnAttributes())),
      convolution(desc) {}

OneDnnConvs::WeightWriter::WeightWriter(const dnnl::engine& engine, const memory::desc& stored,
                                        const dnnl::convolution_backward_weights::primitive_desc& desc)
    : own_dweight(desc.diff_weights_desc()),
      convolution(desc),
      store(dnnl::reorder::primitive_desc(engine, own_dweight, engine, stored, OneDnnAttributes())),
      add(dnnl::reorder::primitive_desc(engine, own_dweight, engine, stored,
                                        OneDnnAttributes(/*sum=*/true))) {}

OneDnnConvs::OneDnnConvs(Device& device)
    : device_(device),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      has_bf16_(UsesBF16Instructions()) {}

template <class Made, class Make>
const std::optional<Made>& OneDnnConvs::Find(Cache<Made>& cache, const Key& key, const Make& make) {
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  const bool may_lack = key.from == memory::data_type::bf16;
  std::optional<Made> made;
  if (!may_lack || has_bf16_) {
    try {
      const auto& [stored, desc] = make();
      if (!may_lack || !IsReference(desc.impl_info_str())) made.emplace(engine_, stored, desc);
    } catch (const dnnl::error& error) {
      if (!may_lack || error.status != dnnl_unimplemented) throw;
    }
  }
  return cache.emplace(key, std::move(made)).first->second;
}

dnnl::convolution_forward::primitive_desc OneDnnConvs::ForwardDesc(const Key& key, bool sum) const {
  const Operands of(key.shape, key.from, key.from, key.from);
  return dnnl::convolution_forward::primitive_desc(engine_, dnnl::prop_kind::forward_training,
                                                   dnnl::algorithm::convolution_direct, of.x, of.weight, of.y,
                                                   of.stride, of.padding, of.padding, OneDnnAttributes(sum));
}

void OneDnnConvs::Execute(const Primitive& primitive, std::initializer_list<Argument> arguments) {
  const Scratch<std::byte> scratchpad(device_, static_cast<int64_t>(primitive.scratchpad.get_size()));
  std::unordered_map<int, memory> memories;
  for (const Argument& argument : arguments) {
    // oneDNN also accepts inputs only as pointers to non-const.
    memories.emplace(argument.index, memory(argument.desc, engine_, const_cast<void*>(argument.data)));
  }
  memories.emplace(DNNL_ARG_SCRATCHPAD, memory(primitive.scratchpad, engine_, scratchpad.data()));
  primitive.primitive.execute(stream_, memories);
}

void OneDnnConvs::Execute(const WeightReader& reader, const void* weight, Argument from, Argument to) {
  const Scratch<std::byte> own_weight(device_, static_cast<int64_t>(reader.own_weight.get_size()));
  const Argument own{DNNL_ARG_WEIGHTS, reader.own_weight, own_weight.data()};
  Execute(reader.reorder, {{DNNL_ARG_FROM, reader.weight, weight}, {DNNL_ARG_TO, own.desc, own.data}});
  Execute(reader.convolution, {from, own, to});
}

template <class T>
bool OneDnnConvs::Forward(const ConvShape& shape, const T* x, const T* weight, T* y) {
  const memory::data_type type = kOneDnnType<T>;
  const Key key{shape, type, type};
  const auto& reader = Find(forward_, key, [&] { return std::pair(Stored(shape, type), ForwardDesc(key)); });
  if (!reader) return false;
  Execute(*reader, weight, {DNNL_ARG_SRC, Describe(shape.in, type), x},
          {DNNL_ARG_DST, Describe(shape.out(), type), y});
  return true;
}

template <class T>
bool OneDnnConvs::WeightGrad(const ConvShape& shape, const T* x, const T* dy, float* dweight,
                             bool accumulate) {
  // With padding and rows shorter than the stride, the bf16 code of oneDNN 2.6 and 3.7 reads uninitialised
  // scratch memory.
  if (std::is_same_v<T, BF16> && shape.padding > 0 && shape.in.width < shape.stride) return false;
  const memory::data_type type = kOneDnnType<T>, wide = memory::data_type::f32;
  const Key key{shape, type, wide};
  const auto& writer = Find(weight_grad_, key, [&] {
    return std::pair(Stored(shape, wide), BackwardDesc<dnnl::convolution_backward_weights>(
                                              engine_, {shape, type, wide, type}, ForwardDesc(key)));
  });
  if (!writer) return false;
  const Scratch<std::byte> own_dweight(device_, static_cast<int64_t>(writer->own_dweight.get_size()));
  Execute(writer->convolution, {{DNNL_ARG_SRC, Describe(shape.in, type), x},
                                {DNNL_ARG_DIFF_DST, Describe(shape.out(), type), dy},
                                {DNNL_ARG_DIFF_WEIGHTS, writer->own_dweight, own_dweight.data()}});
  Execute(accumulate ? writer->add : writer->store, {{DNNL_ARG_FROM, writer->own_dweight, own_dweight.data()},
                                                     {DNNL_ARG_TO, Stored(shape, wide), dweight}});
  return true;
}

template <class T, class Dx>
bool OneDnnConvs::InputGrad(const ConvShape& shape, const T* weight, const T* dy, Dx* dx) {
  const memory::data_type type = kOneDnnType<T>, to = kOneDnnType<Dx>;
  const Key key{shape, type, to};
  const auto& reader = Find(input_grad_, key, [&] {
    return std::pair(Stored(shape, type), BackwardDesc<dnnl::convolution_backward_data>(
                                              engine_, {shape, to, type, type}, ForwardDesc(key)));
  });
  if (!reader) return false;
  Execute(*reader, weight, {DNNL_ARG_DIFF_DST, Describe(shape.out(), type), dy},
          {DNNL_ARG_DIFF_SRC, Describe(shape.in, to), dx});
  return true;
}

void OneDnnConvs::AddInputGrad(const ConvShape& shape, const float* weight, const float* dy, float* dx) {
  const memory::data_type type = memory::data_type::f32;
  const ConvShape transposed{.in = shape.out(),
                             .out_channels = shape.in.channels,
                             .out_block = shape.in.block,
                             .size = 1,
                             .stride = 1,
                             .padding = 0};
  const Key key{transposed, type, type};
  const auto& reader = Find(add_input_grad_, key, [&] {
    return std::pair(DescribeWeight(transposed, type, memory::format_tag::iohw),
                     ForwardDesc(key, /*sum=*/true));
  });
  Execute(*reader, weight, {DNNL_ARG_SRC, Describe(shape.out(), type), dy},
          {DNNL_ARG_DST, Describe(shape.in, type), dx});
}

OneDnnConvs& OneDnnConvsOf(Device& device) {
  // oneDNN reads OpenMP's number of threads when it makes a primitive and when it runs one. The setting
  // belongs to the calling thread, so ranks in one process do not disturb each other.
  omp_set_num_threads(device.num_threads());
  return device.Resource<OneDnnConvs>();
}

#define GRADSYNC_INSTANTIATE(T)                                                                 \
  template bool OneDnnConvs::Forward<T>(const ConvShape&, const T*, const T*, T*);              \
  template bool OneDnnConvs::WeightGrad<T>(const ConvShape&, const T*, const T*, float*, bool); \
  template bool OneDnnConvs::InputGrad<T, float>(const ConvShape&, const T*, const T*, float*);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(BF16)
#undef GRADSYNC_INSTANTIATE
template bool OneDnnConvs::InputGrad<BF16, BF16>(const ConvShape&, const BF16*, const BF16*, BF16*);

}  // namespace gradsync::model::kernels
