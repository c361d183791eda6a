// Which nodes of a graph become one kernel.
//
// Nodes are taken in order; each joins the regions of its producers when the result is still one kernel
// (codegen/region/region.h decides) and no other step would have to run in the middle of it. Every edge that stays a
// boundary between kernels is noted with the reason: the why-ledger.
#pragma once

#include <string>
#include <vector>

#include "codegen/refusal.h"
#include "lower/edges.h"
#include "program/program.h"

namespace deepjit {

struct Boundary {
  Edge edge;
  Refusal why;
  bool costs_launch = false;  // the first edge between its two kernels
};

struct RegionPlan {
  // The nodes of `graph` in an order that respects their edges, regions together. A unit of one node that is no
  // region has fused = false.
  struct Unit {
    std::vector<const Node*> nodes;
    bool fused = false;
  };
  std::vector<Unit> units;
  std::vector<Boundary> boundaries;
};

RegionPlan plan_regions(const Graph& graph);
// Each node by itself.
RegionPlan plan_singly(const Graph& graph);

// For each block: is it that of a region, whose step stands for its steps?
std::vector<bool> blocks_of_regions(const Program& program);

// Appends the step of a region, whose operands are set, over a block of the steps that it stands for. Returns its
// number.
int32_t add_region_step(Program& program, Step region, std::vector<int32_t> steps);

}  // namespace deepjit
