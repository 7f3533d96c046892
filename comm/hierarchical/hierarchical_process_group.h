#ifndef GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
#define GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "comm/gloo/gloo_process_group.h"
#include "comm/process_group.h"

namespace gradsync::comm {

// Ranks of several hosts: shm within a host, gloo between hosts. CPU tensors only. In an all-reduce the ranks
// of a host reduce a share each, in memory; those with the same place on their hosts reduce their share over
// the link; then everyone gets the other shares, in memory (Mikami et al., 2018: a torus of two dimensions).
// With L ranks on each host, each byte of the vector crosses the link once for L times that it does in gloo.
// Vectors go in chunks, so that the link carries one while memory works on others.
//
// A sum is formed within each host, in rank order, then of the hosts' sums, in the order of their lowest
// ranks: bitwise the same on all ranks, but not always the same as gloo's. A sum of bf16 crosses the link in
// f32, and is rounded once.
//
// Collectives run one after the other. Ranks of a host compare each before they run it. Allocate, deadlines,
// lost peers and destruction are those of shm and gloo; but a rank of another host has twice the timeout,
// because it may be waiting for a rank of its own host, which then is to be named. Where there is one host,
// or one rank on each, one of these does everything, and messages name that one.
//
// Takes what MakeGlooGroup takes, but for a GPU, and throws what it throws; also InvalidInput if the hosts do
// not have equally many ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GlooOptions& options);

// The ranks of each host, in rising order; the hosts in the order of their lowest ranks. `hosts`: where each
// rank is (Job::hosts). Throws InvalidInput unless all have equally many.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
