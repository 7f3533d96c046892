#ifndef GRADSYNC_COMM_GLOO_GLOO_OWN_H_
#define GRADSYNC_COMM_GLOO_GLOO_OWN_H_

#include "comm/gloo/gloo_mesh.h"
#include "comm/queue/request.h"

namespace gradsync::comm {

// What backend `gloo_own` has in place of backend `gloo`'s all-reduce, for comparison: the ring that comes
// with gloo, which PyTorch's gloo backend runs, over the same connections. (Other collectives of both are
// ours, gloo_collectives.h.) Each rank adds a part to what it has received, and rounds at each of size - 1
// steps. A connection that breaks in the midst of a message is noticed at the deadline. Otherwise like
// RunCollective. Throws PeerError, which knows no rank.
void RunOwnAllReduce(GlooMesh& mesh, const Request& request);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_GLOO_OWN_H_
