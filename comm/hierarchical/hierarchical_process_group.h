#ifndef GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
#define GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "comm/queue/first_cause.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

struct HierarchicalOptions {
  // Makes a group of some of the ranks. With a first cause it is a part of this one: see RequestQueueOptions.
  using MakePart = std::function<std::unique_ptr<ProcessGroup>(
      const World& world, std::chrono::milliseconds timeout, std::shared_ptr<FirstCause> first_cause)>;

  World world;
  std::chrono::milliseconds timeout{60000};
  MakePart inner;  // of the ranks of a host
  MakePart outer;  // of the ranks with one place on all hosts
};

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
// Throws what the parts throw; also InvalidInput if the hosts do not have equally many ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const HierarchicalOptions& options);

// The ranks of each host, in rising order; the hosts in the order of their lowest ranks. `hosts`: where each
// rank is (Job::hosts). Throws InvalidInput unless all have equally many.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_HIERARCHICAL_HIERARCHICAL_PROCESS_GROUP_H_
