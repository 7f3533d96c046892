// Computes attention as a graph for which cuDNN has one kernel, with an algorithm that gives bitwise equal
// results in every run.

#include "model/kernels/attention_cudnn.h"

#include <cudnn_frontend.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "model/base/error.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

// The ids of tensors in cuDNN's graph.
enum Id : int64_t { kQ = 1, kK, kV, kOut, kStats, kOutGrad, kQGrad, kKGrad, kVGrad };

// A pass over heads of one shape: a graph, and the resources to run it.
struct Plan {
  Graph graph;
  int64_t workspace_bytes = -1;  // negative if cuDNN does not support the pass
};

// Batch, positions, heads, columns of a head, and whether the pass is the gradient.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, bool>;

// Returns whether the code is a failure, which does not show whether cuDNN supports the pass.
bool IsFailure(fe::error_code_t code) {
  return code == fe::error_code_t::CUDA_API_FAILED || code == fe::error_code_t::HANDLE_ERROR ||
         code == fe::error_code_t::INVALID_CUDA_DEVICE || code == fe::error_code_t::NVRTC_COMPILATION_FAILED;
}

[[noreturn]] void Throw(const Key& key, fe::error_t& error) {
  const auto& [batch, seq, num_heads, head_dim, is_grad] = key;
  throw CudaError(Join(is_grad ? "the gradient of attention" : "attention", " of ", batch, " x ", seq,
                       " positions in ", num_heads, " heads of ", head_dim,
                       " columns by cuDNN failed: ", error.get_message()));
}

class Plans {
 public:
  explicit Plans(Device& device) : device_(static_cast<CudaDevice&>(device)) {
    device_.MakeCurrent();
    Check(cudnnCreate(&library_), "cudnnCreate");
    Check(cudnnSetStream(library_, device_.compute_stream().get()), "cudnnSetStream");
  }
  ~Plans() { cudnnDestroy(library_); }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  // Runs a pass. Returns false if cuDNN does not support this pass.
  bool Run(const HeadShape& shape, bool is_grad, std::unordered_map<int64_t, void*> tensors) {
    device_.MakeCurrent();
    const Key key{shape.batch, shape.seq, shape.num_heads, shape.head_dim, is_grad};
    std::unique_ptr<Plan>& plan = plans_[key];
    if (plan == nullptr) plan = Build(shape, key);
    if (plan->workspace_bytes < 0) return false;
    const Scratch<char> workspace(device_, plan->workspace_bytes);
    fe::error_t error = plan->graph.execute(library_, tensors, workspace.data());
    if (error.is_bad()) Throw(key, error);
    return true;
  }

 private:
  static void Check(cudnnStatus_t status, const char* call) {
    if (status != CUDNN_STATUS_SUCCESS) throw CudaError(Join(call, " failed: ", cudnnGetErrorString(status)));
  }

  std::unique_ptr<Plan> Build(const HeadShape& shape, const Key& key) {
    auto plan = std::make_unique<Plan>();
    Graph& graph = plan->graph;
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    // Describes tensors (batch, num_heads, seq, head_dim) in the memory of (batch, seq, d_model).
    const auto place = [&](fe::graph::Tensor_attributes& tensor, Id id) {
      tensor.set_uid(id)
          .set_dim({shape.batch, shape.num_heads, shape.seq, shape.head_dim})
          .set_stride({shape.seq * shape.d_model(), shape.head_dim, shape.d_model(), 1});
    };
    const auto place_stats = [&](fe::graph::Tensor_attributes& tensor) {
      tensor.set_uid(kStats)
          .set_dim({shape.batch, shape.num_heads, shape.seq, 1})
          .set_stride({shape.num_heads * shape.seq, shape.seq, 1, 1})
          .set_data_type(fe::DataType_t::FLOAT);
    };
    const auto input = [&](Id id) {
      fe::graph::Tensor_attributes tensor;
      place(tensor, id);
      return graph.tensor(tensor);
    };
    const auto output = [&](const TensorPtr& tensor, Id id) { place(tensor->set_output(true), id); };
    const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    const TensorPtr q = input(kQ), k = input(kK), v = input(kV);
    if (!std::get<bool>(key)) {
      const auto [out, stats] = graph.sdpa(
          q, k, v,
          fe::graph::SDPA_attributes().set_generate_stats(true).set_causal_mask(true).set_attn_scale(scale));
      output(out, kOut);
      place_stats(stats->set_output(true));
    } else {
      const TensorPtr out = input(kOut), out_grad = input(kOutGrad);
      fe::graph::Tensor_attributes stats;
      place_stats(stats);
      const auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, out, out_grad, graph.tensor(stats),
                                                    fe::graph::SDPA_backward_attributes()
                                                        .set_causal_mask(true)
                                                        .set_attn_scale(scale)
                                                        .set_deterministic_algorithm(true));
      output(dq, kQGrad);
      output(dk, kKGrad);
      output(dv, kVGrad);
    }
    int64_t workspace_bytes = 0;
    fe::error_t error = graph.build(library_, {fe::HeurMode_t::A});
    if (error.is_good()) error = graph.get_workspace_size(workspace_bytes);
    if (IsFailure(error.get_code())) Throw(key, error);
    if (error.is_good() && workspace_bytes <= kMaxWorkspaceBytes) plan->workspace_bytes = workspace_bytes;
    return plan;
  }

  // The maximum scratch memory of cuDNN. The memory to compute gradients in a fixed order grows with the
  // square of the sequence length.
  static constexpr int64_t kMaxWorkspaceBytes = int64_t{4} << 30;

  CudaDevice& device_;
  cudnnHandle_t library_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

void* Pointer(const void* data) { return const_cast<void*>(data); }

// Returns whether cuDNN can read the arrays in accesses of 16 bytes.
bool Suits(const HeadShape& shape, std::initializer_list<const void*> tensors) {
  constexpr uintptr_t kAlignment = 16;
  constexpr int64_t kMaxHeadDim = 128;  // the limit of our own kernels, which compute all other cases
  for (const void* tensor : tensors) {
    if (tensor == nullptr || reinterpret_cast<uintptr_t>(tensor) % kAlignment != 0) return false;
  }
  return shape.head_dim % (kAlignment / sizeof(BF16)) == 0 && shape.head_dim <= kMaxHeadDim;
}

}  // namespace

bool ByCudnn(Device& device, const CausalAttention<BF16>& op) {
  return Suits(op.shape, {op.q, op.k, op.v, op.out}) &&
         device.Resource<Plans>().Run(op.shape, false,
                                      {{kQ, Pointer(op.q)},
                                       {kK, Pointer(op.k)},
                                       {kV, Pointer(op.v)},
                                       {kOut, op.out},
                                       {kStats, op.log_sum_exp}});
}

bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op) {
  return !op.dq.accumulate && !op.dk.accumulate && !op.dv.accumulate &&
         Suits(op.shape, {op.q, op.k, op.v, op.out, op.dout, op.dq.data, op.dk.data, op.dv.data}) &&
         device.Resource<Plans>().Run(op.shape, true,
                                      {{kQ, Pointer(op.q)},
                                       {kK, Pointer(op.k)},
                                       {kV, Pointer(op.v)},
                                       {kOut, Pointer(op.out)},
                                       {kStats, Pointer(op.log_sum_exp)},
                                       {kOutGrad, Pointer(op.dout)},
                                       {kQGrad, op.dq.data},
                                       {kKGrad, op.dk.data},
                                       {kVGrad, op.dv.data}});
}

}  // namespace gradsync::model::kernels
