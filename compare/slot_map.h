// Is the graph-safe slot buffer of a call equivalent to rebasing its slot mapping eagerly, and do
// its slots agree with the block table (numerics.md section 7)?
#pragma once

#include "compare/report.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// A report for every call; nothing is thrown for a bad buffer, it is what the report is about.
//
// The buffer is compared wherever the call has one that could be used: block_contiguous storage and
// one entry for each row of the batch. It is compared in eager batches also, where it decides
// nothing (graph_buffer_used is false). Otherwise the verdict is not_applicable, with the reason.
//
// Two negative entries are equal whatever their values: both store nothing. duplicates counts the
// non-negative entries whose slot an earlier entry has; it and out_of_range look at all entries,
// stale ones included. first_difference is the first scheduled row whose entries differ, or else
// the first stale entry (whose eager place is nowhere).
SlotMapReport slot_map_report(const LayerCall& call);

}  // namespace zerodiff::compare
