// That cuDNN does what it is asked for, not what its results are: //model:functions_cuda_test has these.

#include "model/kernels/attention_cudnn.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "model/tensor/cuda_device.h"
#include "model/tensor/tensor.h"

namespace gradsync::model::kernels {
namespace {

class AttentionCudnnTest : public testing::Test {
 protected:
  // Whether cuDNN does forward and backward over heads of so many columns. added: the gradient (0 to 2) that
  // is added to what is there, if any.
  std::pair<bool, bool> Does(int64_t head_dim, int added = -1) {
    const HeadShape shape{.batch = 2, .seq = 70, .num_heads = 3, .head_dim = head_dim};
    const auto of_heads = [&] { return Tensor::Zeros(device_, {2, 70, 3 * head_dim}, DType::kBF16); };
    const Tensor q = of_heads(), k = of_heads(), v = of_heads(), out = of_heads(), dout = of_heads();
    const Tensor dq = of_heads(), dk = of_heads(), dv = of_heads();
    const Tensor log_sum_exp = Tensor::Zeros(device_, {2, 3, 70}, DType::kF32);
    const auto data = [](const Tensor& tensor) { return tensor.data<BF16>(); };
    const bool forward = ByCudnn(*device_, CausalAttention<BF16>{.shape = shape,
                                                                 .q = data(q),
                                                                 .k = data(k),
                                                                 .v = data(v),
                                                                 .out = data(out),
                                                                 .log_sum_exp = log_sum_exp.data<float>()});
    const auto place = [&](const Tensor& grad, int number) {
      return Destination<BF16*>{.data = data(grad), .accumulate = number == added};
    };
    const bool backward =
        ByCudnn(*device_, CausalAttentionGrad<BF16>{.shape = shape,
                                                    .q = data(q),
                                                    .k = data(k),
                                                    .v = data(v),
                                                    .out = data(out),
                                                    .log_sum_exp = log_sum_exp.data<float>(),
                                                    .dout = data(dout),
                                                    .dq = place(dq, 0),
                                                    .dk = place(dk, 1),
                                                    .dv = place(dv, 2)});
    device_->Synchronize();
    return {forward, backward};
  }

 private:
  const std::shared_ptr<CudaDevice> device_ = std::make_shared<CudaDevice>(0);
};

TEST_F(AttentionCudnnTest, DoesHeadsOfAllNamedModels) {
  for (const int64_t head_dim : {64, 80}) EXPECT_EQ(Does(head_dim), std::pair(true, true)) << head_dim;
}

TEST_F(AttentionCudnnTest, LeavesTheRestToOthers) {
  EXPECT_EQ(Does(12), std::pair(false, false));
  for (const int added : {0, 1, 2}) EXPECT_EQ(Does(64, added), std::pair(true, false)) << added;
}

}  // namespace
}  // namespace gradsync::model::kernels
