#include "tools/import/protocol.h"

namespace gradsync::tools {

bench::Record NewRecord(const Protocol& protocol, const ImportOptions& options) {
  bench::Record record;
  record.experiment = protocol.experiment;
  record.run_id = options.run_id;
  record.world_size = options.world_size.value_or(protocol.world_size);
  bench::Fields& config = record.config;
  if (!protocol.model.empty()) config.Set("model", protocol.model);
  if (!protocol.backend.empty()) config.Set("backend", protocol.backend);
  config.Set("device", "cuda");
  config.Set("dtype", "f32");
  if (protocol.batch_size > 0) config.Set("batch_size", protocol.batch_size);
  if (protocol.seq_len > 0) config.Set("seq_len", protocol.seq_len);
  config.Set("order", "blocks");
  if (protocol.steps > 0) {
    config.Set("warmup_steps", protocol.warmup_steps);
    config.Set("steps", protocol.steps);
  }
  if (!protocol.optimizer.empty()) config.Set("optimizer", protocol.optimizer);
  bench::Fields& facts = record.facts;
  facts.Set("ranks_behind_times", protocol.ranks_behind_times);
  if (!protocol.step_covers.empty()) facts.Set("step_covers", protocol.step_covers);
  facts.Set("sync_covers", protocol.sync_covers);
  facts.Set("phases_synchronised", bench::Value(protocol.phases_synchronised));
  record.provenance.host = "as published";
  record.provenance.command_line = "tools/import_published " + options.source;
  record.provenance.clock = protocol.clock;
  return record;
}

}  // namespace gradsync::tools
