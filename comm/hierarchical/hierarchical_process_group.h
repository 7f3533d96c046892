#ifndef GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
#define GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a group of some of the ranks, with a first cause as a part: see RequestQueueOptions.
using MakePart = std::function<std::unique_ptr<ProcessGroup>(const GroupOptions& part,
                                                             const std::shared_ptr<FirstCause>& first_cause)>;

// Ranks of several hosts, over two backends: one within a host, one between hosts. CPU tensors only. In an
// all-reduce each rank of a host reduces one share of the host's vectors; ranks with the same local rank
// reduce that share between hosts; then the ranks of a host collect all shares (Mikami et al., 2018: a torus
// of two dimensions). With L ranks on each host, the link carries 1/L of the bytes that it carries if the
// outer backend does everything. Vectors go in chunks, so that the link carries one while memory works on
// others. All requests to both parts are made when the collective is issued, each with the one that it waits
// for, so the parts' threads do everything.
//
// Each host reduces its ranks' vectors as the inner backend does; then the hosts' sums are reduced as the
// outer one does. Sums of bf16 are added up in f32, because a host's sum must not be rounded before it is
// complete: 4 bytes an element instead of 2, so that the link carries 2/L of what it carries without hosts.
//
// Collectives run one after the other. Allocate, deadlines, lost peers and destruction are as in the parts,
// but ranks of other hosts have twice the timeout: such a rank may be waiting for a rank of its own host,
// which is then the one to name. With one host, or one rank on each host, one part alone does everything, and
// messages name it.
//
// The options name the parts' backends, "inner" and "outer".
// Throws what the parts throw; also InvalidInput if the hosts do not have equally many ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GroupOptions& options, const MakePart& make_part);

// The ranks of each host, in rising order; the hosts in the order of their lowest ranks. `hosts`: where each
// rank is (Job::hosts). Throws InvalidInput unless all have equally many.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
