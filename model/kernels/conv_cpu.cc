#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <dnnl.hpp>
#include <initializer_list>
#include <map>
#include <optional>
#include <type_traits>
#include <unordered_map>

#include "model/kernels/conv.h"
#include "model/kernels/parallel.h"
#include "model/kernels/scratch.h"
#include "model/kernels/vector.h"

namespace gradsync::model::kernels::cpu {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

memory::desc Describe(const ActivationShape& shape) {
  const memory::format_tag tag = shape.block == 16  ? memory::format_tag::nChw16c
                                 : shape.block == 8 ? memory::format_tag::nChw8c
                                                    : memory::format_tag::nchw;
  return {{shape.batch, shape.channels, shape.height, shape.width}, memory::data_type::f32, tag};
}

memory::desc DescribeWeight(const ConvShape& shape, memory::format_tag tag) {
  return {{shape.out_channels, shape.in.channels, shape.size, shape.size}, memory::data_type::f32, tag};
}

// With `sum`, a primitive adds to what its output holds.
dnnl::primitive_attr Attributes(bool sum = false) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (sum) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(1.0f);
    attributes.set_post_ops(post_ops);
  }
  return attributes;
}

// One of oneDNN's descriptions of a convolution, forward or backward.
template <class Desc, class... Kind>
Desc DescribeConv(const ConvShape& shape, Kind... kind) {
  const memory::dims stride{shape.stride, shape.stride}, padding{shape.padding, shape.padding};
  return Desc(kind..., dnnl::algorithm::convolution_direct, Describe(shape.in),
              DescribeWeight(shape, memory::format_tag::any), Describe(shape.out()), stride, padding,
              padding);
}

// A primitive made ready, and the working memory that it wants to be given.
struct Primitive {
  template <class Desc>
  explicit Primitive(const Desc& desc) : primitive(desc.get()), scratchpad(desc.scratchpad_desc()) {}

  dnnl::primitive primitive;
  memory::desc scratchpad;
};

Primitive MakeReorder(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to,
                      bool sum = false) {
  return Primitive(dnnl::reorder::primitive_desc(engine, from, engine, to, Attributes(sum)));
}

// A convolution that reads the weight, and the reorder that brings the weight into its layout.
struct WeightReader {
  memory::desc weight, own_weight;  // as it is stored, and as the convolution wants it
  Primitive reorder;
  Primitive convolution;

  template <class Desc>
  WeightReader(const dnnl::engine& engine, const memory::desc& stored, const Desc& desc)
      : weight(stored),
        own_weight(desc.weights_desc()),
        reorder(MakeReorder(engine, weight, own_weight)),
        convolution(desc) {}
};

// A convolution that computes the weight's gradient, and the reorders that bring it to where it is wanted.
struct WeightWriter {
  memory::desc own_dweight;
  Primitive convolution;
  Primitive store, add;

  WeightWriter(const dnnl::engine& engine, const memory::desc& stored,
               const dnnl::convolution_backward_weights::primitive_desc& desc)
      : own_dweight(desc.diff_weights_desc()),
        convolution(desc),
        store(MakeReorder(engine, own_dweight, stored)),
        add(MakeReorder(engine, own_dweight, stored, /*sum=*/true)) {}
};

// Everything that one convolution has needed so far.
struct ConvPrimitives {
  std::optional<WeightReader> forward, input_grad, add_input_grad;
  std::optional<WeightWriter> weight_grad;
};

// A device's oneDNN engine, and the primitives of all its convolutions.
class ConvCache {
 public:
  explicit ConvCache(Device& device)
      : device_(device), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const WeightReader& Forward(const ConvShape& shape) {
    std::optional<WeightReader>& slot = primitives_[shape].forward;
    if (!slot) slot.emplace(engine_, Stored(shape), ForwardDesc(shape));
    return *slot;
  }

  const WeightWriter& WeightGrad(const ConvShape& shape) {
    std::optional<WeightWriter>& slot = primitives_[shape].weight_grad;
    if (!slot) {
      slot.emplace(engine_, Stored(shape),
                   dnnl::convolution_backward_weights::primitive_desc(
                       DescribeConv<dnnl::convolution_backward_weights::desc>(shape), Attributes(), engine_,
                       ForwardDesc(shape)));
    }
    return *slot;
  }

  const WeightReader& InputGrad(const ConvShape& shape) {
    std::optional<WeightReader>& slot = primitives_[shape].input_grad;
    if (!slot) {
      slot.emplace(engine_, Stored(shape),
                   dnnl::convolution_backward_data::primitive_desc(
                       DescribeConv<dnnl::convolution_backward_data::desc>(shape), Attributes(), engine_,
                       ForwardDesc(shape)));
    }
    return *slot;
  }

  // dx += the input's gradient, for a kernel that is one pixel at every pixel. That is a matrix product at
  // each pixel, so its backward pass is a forward one with the transposed weight, and a forward convolution
  // can add to its output where oneDNN's backward one cannot.
  const WeightReader& AddInputGrad(const ConvShape& shape) {
    std::optional<WeightReader>& slot = primitives_[shape].add_input_grad;
    if (!slot) {
      const ConvShape transposed{.in = shape.out(),
                                 .out_channels = shape.in.channels,
                                 .out_block = shape.in.block,
                                 .size = 1,
                                 .stride = 1,
                                 .padding = 0};
      const memory::desc stored = DescribeWeight(transposed, memory::format_tag::iohw);
      slot.emplace(engine_, stored, ForwardDesc(transposed, /*sum=*/true));
    }
    return *slot;
  }

  struct Argument {
    int index;
    const memory::desc& desc;
    const float* data;
  };

  void Execute(const Primitive& primitive, std::initializer_list<Argument> arguments) {
    const Scratch<std::byte> scratchpad(device_, static_cast<int64_t>(primitive.scratchpad.get_size()));
    std::unordered_map<int, memory> memories;
    for (const Argument& argument : arguments) {
      // oneDNN takes inputs, too, by a pointer through which it could write.
      memories.emplace(argument.index, memory(argument.desc, engine_, const_cast<float*>(argument.data)));
    }
    memories.emplace(DNNL_ARG_SCRATCHPAD, memory(primitive.scratchpad, engine_, scratchpad.data()));
    primitive.primitive.execute(stream_, memories);
  }

  void Execute(const WeightReader& reader, const float* weight, Argument from, Argument to) {
    const Scratch<float> own_weight = ScratchFor(reader.own_weight);
    const Argument own{DNNL_ARG_WEIGHTS, reader.own_weight, own_weight.data()};
    Execute(reader.reorder, {{DNNL_ARG_FROM, reader.weight, weight}, {DNNL_ARG_TO, own.desc, own.data}});
    Execute(reader.convolution, {from, own, to});
  }

  Scratch<float> ScratchFor(const memory::desc& desc) {
    return Scratch<float>(device_, static_cast<int64_t>(desc.get_size() / sizeof(float)));
  }

 private:
  static memory::desc Stored(const ConvShape& shape) {
    return DescribeWeight(shape, memory::format_tag::oihw);
  }

  dnnl::convolution_forward::primitive_desc ForwardDesc(const ConvShape& shape, bool sum = false) const {
    return {DescribeConv<dnnl::convolution_forward::desc>(shape, prop_kind::forward_training),
            Attributes(sum), engine_};
  }

  Device& device_;
  const dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<ConvShape, ConvPrimitives> primitives_;
};

// oneDNN reads OpenMP's number of threads when it makes a primitive and when it runs one. The setting belongs
// to the calling thread, so ranks in one process do not disturb each other.
ConvCache& CacheOf(Device& device) {
  omp_set_num_threads(device.num_threads());
  return device.Resource<ConvCache>();
}

// The first element of a channel's pixels; the next pixel is `block` elements further.
int64_t ChannelStart(const ActivationShape& shape, int64_t image, int64_t channel) {
  return (image * shape.channel_blocks() + channel / shape.block) * shape.plane() + channel % shape.block;
}

// Calls fn(x, w, y) with the indices of every product x[] w[] that is a term of y[]: for each pair of
// channels and each tap of the kernel, over all pixels.
template <class Fn>
void ForEachTerm(const ConvShape& shape, const Fn& fn) {
  const ActivationShape in = shape.in, out = shape.out();
  for (int64_t image = 0; image < in.batch; ++image) {
    for (int64_t pair = 0; pair < out.channels * in.channels; ++pair) {
      const int64_t x = ChannelStart(in, image, pair % in.channels);
      const int64_t y = ChannelStart(out, image, pair / in.channels);
      for (int64_t tap = 0; tap < shape.size * shape.size; ++tap) {
        const int64_t down = tap / shape.size - shape.padding, right = tap % shape.size - shape.padding;
        for (int64_t row = 0; row < out.height; ++row) {
          const int64_t in_row = row * shape.stride + down;
          if (in_row < 0 || in_row >= in.height) continue;
          for (int64_t col = 0; col < out.width; ++col) {
            const int64_t in_col = col * shape.stride + right;
            if (in_col < 0 || in_col >= in.width) continue;
            fn(x + (in_row * in.width + in_col) * in.block, pair * shape.size * shape.size + tap,
               y + (row * out.width + col) * out.block);
          }
        }
      }
    }
  }
}

}  // namespace

int64_t PreferredChannelBlock() {
  // Of the instruction sets that oneDNN knows, those with AVX-512 have these bits.
  const unsigned avx512 = static_cast<unsigned>(dnnl_cpu_isa_avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx512) == avx512 ? 16 : 8;
}

template <class T>
void Conv2d(Device& device, const ConvShape& shape, const T* x, const T* weight, T* y) {
  if constexpr (std::is_same_v<T, float>) {
    ConvCache& cache = CacheOf(device);
    cache.Execute(cache.Forward(shape), weight, {DNNL_ARG_SRC, Describe(shape.in), x},
                  {DNNL_ARG_DST, Describe(shape.out()), y});
  } else {
    std::fill_n(y, shape.out().numel(), T{0});
    ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { y[o] += x[i] * weight[w]; });
  }
}

template <class T>
void Conv2dWeightGrad(Device& device, const ConvShape& shape, const T* x, const T* dy, T* dweight,
                      bool accumulate) {
  if constexpr (std::is_same_v<T, float>) {
    ConvCache& cache = CacheOf(device);
    const WeightWriter& writer = cache.WeightGrad(shape);
    const Scratch<float> own_dweight = cache.ScratchFor(writer.own_dweight);
    cache.Execute(writer.convolution, {{DNNL_ARG_SRC, Describe(shape.in), x},
                                       {DNNL_ARG_DIFF_DST, Describe(shape.out()), dy},
                                       {DNNL_ARG_DIFF_WEIGHTS, writer.own_dweight, own_dweight.data()}});
    cache.Execute(accumulate ? writer.add : writer.store,
                  {{DNNL_ARG_FROM, writer.own_dweight, own_dweight.data()},
                   {DNNL_ARG_TO, DescribeWeight(shape, memory::format_tag::oihw), dweight}});
  } else {
    if (!accumulate) std::fill_n(dweight, shape.weight_numel(), T{0});
    ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { dweight[w] += x[i] * dy[o]; });
  }
}

template <class T>
void Conv2dInputGrad(Device& device, const ConvShape& shape, const T* weight, const T* dy, T* dx,
                     bool accumulate) {
  if constexpr (std::is_same_v<T, float>) {
    ConvCache& cache = CacheOf(device);
    const memory::desc x_desc = Describe(shape.in), y_desc = Describe(shape.out());
    if (accumulate && shape.size == 1 && shape.stride == 1 && shape.padding == 0) {
      return cache.Execute(cache.AddInputGrad(shape), weight, {DNNL_ARG_SRC, y_desc, dy},
                           {DNNL_ARG_DST, x_desc, dx});
    }
    std::optional<Scratch<float>> sum_of;
    if (accumulate) sum_of.emplace(device, shape.in.numel());
    float* target = accumulate ? sum_of->data() : dx;
    cache.Execute(cache.InputGrad(shape), weight, {DNNL_ARG_DIFF_DST, y_desc, dy},
                  {DNNL_ARG_DIFF_SRC, x_desc, target});
    if (!accumulate) return;
    ParallelFor(device, shape.in.numel(),
                [&](int64_t begin, int64_t end) { Add(target + begin, dx + begin, end - begin); });
  } else {
    if (!accumulate) std::fill_n(dx, shape.in.numel(), T{0});
    ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { dx[i] += weight[w] * dy[o]; });
  }
}

#define GRADSYNC_INSTANTIATE(T)                                                               \
  template void Conv2d<T>(Device&, const ConvShape&, const T*, const T*, T*);                 \
  template void Conv2dWeightGrad<T>(Device&, const ConvShape&, const T*, const T*, T*, bool); \
  template void Conv2dInputGrad<T>(Device&, const ConvShape&, const T*, const T*, T*, bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
