#ifndef GRADSYNC_TOOLS_TORCH_ANSWER_H_
#define GRADSYNC_TOOLS_TORCH_ANSWER_H_

#include <ostream>

#include "tools/predict/torch_profile.h"

namespace gradsync::tools {

// One screen: what the user's step takes without synchronisation and with DistributedDataParallel, which size
// of a bucket is best, and what accumulation, bf16, ZeRO-1 and other links make of it; steps of DDP that
// were measured stand beside what was predicted. `measured`: recorded where the answer is to hold, if
// `profile` was not.
void PrintTorchAnswer(const TorchProfile& profile, const Elsewhere& elsewhere, const TorchProfile* measured,
                      std::ostream& out);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TORCH_ANSWER_H_
