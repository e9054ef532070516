// May stored outputs feed the stages after insertion?
#pragma once

#include <string>

#include "device/paths/attention_options.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// Throws Error (input), naming the dataset of `group` and the row, unless `inserted` holds what the
// stages of `options` read (attention_stages.h), in the shapes that the call implies: selections of -1 and
// blocks that their row sees, context lengths that the table has pages for, and pages of the pool's
// K half. `call` is valid, has a selection, and stages without an index branch are left out
// already.
void check_attention_inputs(const LayerCall& call, const Outputs& inserted,
                            const AttentionOptions& options, const std::string& group = "/outputs");

}  // namespace zerodiff::device
