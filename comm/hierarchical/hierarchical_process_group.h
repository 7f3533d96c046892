#ifndef GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
#define GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "comm/gloo/gloo_process_group.h"
#include "comm/process_group.h"

namespace gradsync::comm {

// Ranks of several hosts: shm within a host, gloo between hosts. CPU tensors only. In an all-reduce each rank
// of a host reduces one share of the host's vectors in memory; ranks with the same local rank reduce that
// share over the link; then the ranks of a host collect all shares in memory (Mikami et al., 2018: a torus of
// two dimensions). With L ranks on each host, the link carries 1/L of the bytes that it carries with gloo
// alone. Vectors go in chunks, so that the link carries one while memory works on others.
//
// Each host adds up its ranks' vectors in rank order; then the hosts' sums are added in the order of the
// hosts' lowest ranks. The result is bitwise the same on all ranks, but not always the same as gloo's. Sums
// of bf16 cross the link in f32, because a host's sum must not be rounded before it is complete: 4 bytes an
// element instead of 2, so that the link carries 2/L of what it carries with gloo alone.
//
// Collectives run one after the other. Ranks of a host compare each before they run it. Allocate, deadlines,
// lost peers and destruction are as in shm and gloo, but ranks of other hosts have twice the timeout: such a
// rank may be waiting for a rank of its own host, which is then the one to name. With one host, or one rank
// on each host, shm or gloo alone does everything, and messages name it.
//
// Takes what MakeGlooGroup takes, but for a GPU, and throws what it throws; also InvalidInput if the hosts do
// not have equally many ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GlooOptions& options);

// The ranks of each host, in rising order; the hosts in the order of their lowest ranks. `hosts`: where each
// rank is (Job::hosts). Throws InvalidInput unless all have equally many.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
