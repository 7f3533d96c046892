#include "model/testing/training_suite.h"

namespace gradsync::model {
namespace {

INSTANTIATE_TEST_SUITE_P(OneThread, TrainingTest,
                         testing::ValuesIn(TrainingCases("1_thread", [] { return CpuDevice(1); })),
                         TrainingCaseName);
INSTANTIATE_TEST_SUITE_P(OneThread, LearningTest,
                         testing::ValuesIn(TrainingCases("1_thread", [] { return CpuDevice(1); })),
                         TrainingCaseName);
INSTANTIATE_TEST_SUITE_P(TwoThreads, TrainingTest,
                         testing::ValuesIn(TrainingCases("2_threads", [] { return CpuDevice(2); })),
                         TrainingCaseName);

}  // namespace
}  // namespace gradsync::model
