#include "lower/combos.h"

#include <algorithm>
#include <set>

#include "lower/edges.h"
#include "lower/regions.h"
#include "program/combo.h"

namespace deepjit {

namespace {

// The steps of one block in their new order. A place in it is a number: item i is 2 * i, what stands right behind it
// 2 * i + 1, what comes from outside the block -1.
class Joiner {
 public:
  Joiner(Program& program, const std::map<int32_t, int64_t>& bytes, const JoinRules& rules,
         const std::map<int32_t, std::vector<int32_t>>& readers, size_t block)
      : program_(program), bytes_(bytes), rules_(rules), readers_(readers), block_(block) {}

  void run(std::vector<int32_t>& made) {
    do {
      lay_out();
    } while (bar_views());
    const bool any = std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.parts > 1; });
    if (!any) return;
    std::vector<int32_t> order = first_;
    for (const Item& item : items_) {
      if (item.parts > 1) {
        order.push_back(make(item));
        made.push_back(order.back());
      } else {
        order.insert(order.end(), item.steps.begin(), item.steps.end());
      }
      order.insert(order.end(), item.behind.begin(), item.behind.end());
    }
    program_.blocks[block_].steps = std::move(order);
  }

 private:
  struct Item {
    std::vector<int32_t> steps;
    std::vector<int32_t> behind;
    size_t parts = 0;  // kernels that share the launch; 0: none may
  };

  const Step& step(int32_t index) const { return program_.steps[static_cast<size_t>(index)]; }

  bool is_part(int32_t index) const {
    const Step& s = step(index);
    const auto size = bytes_.find(index);
    return s.op == kRegionOp && s.tactic.provider == rules_.provider && size != bytes_.end() &&
           size->second <= rules_.most_bytes;
  }
  bool launches(int32_t index) const {
    return !step(index).blocks.empty() || (bytes_.count(index) != 0 && !is_alias(step(index).op));
  }

  void lay_out() {
    first_.clear();
    items_.clear();
    place_.clear();
    for (int32_t index : program_.blocks[block_].steps) {
      int need = -1;
      for (int32_t b : step(index).inputs) {
        if (const auto it = place_.find(b); it != place_.end()) need = std::max(need, it->second);
      }
      const int place = is_part(index) ? place_part(index, need) : launches(index) ? append(index) : pass(index, need);
      for (int32_t b : step(index).outputs) place_[b] = place;
    }
  }

  int append(int32_t index) {
    items_.push_back({{index}, {}, 0});
    return static_cast<int>(items_.size() - 1) * 2;
  }

  int place_part(int32_t index, int need) {
    if (const int at = item_for(index, need); at >= 0) {
      Item& item = items_[static_cast<size_t>(at)];
      item.steps.push_back(index);
      ++item.parts;
      return at * 2;
    }
    const int place = append(index);
    items_.back().parts = 1;
    return place;
  }

  // The launch that the kernel joins, or -1. In order: the last one; else the first behind all that it needs.
  int item_for(int32_t index, int need) const {
    const auto end = static_cast<int>(items_.size());
    const int first = rules_.in_order ? std::max(0, end - 1) : need / 2 + (need < 0 ? 0 : 1);
    for (int at = first; at < end; ++at) {
      const Item& item = items_[static_cast<size_t>(at)];
      if (item.parts == 0 || item.parts >= rules_.most_parts || need > at * 2) continue;
      if (!rules_.fit || rules_.fit(step(item.steps.front()), step(index))) return at;
    }
    return -1;
  }

  // What launches nothing goes as far forward as it can.
  int pass(int32_t index, int need) {
    if (need < 0) {
      first_.push_back(index);
      return -1;
    }
    Item& item = items_[static_cast<size_t>(need) / 2];
    const bool inside = item.parts > 0 && need % 2 == 0 && is_alias(step(index).op) && barred_.count(index) == 0 &&
                        from_inside(index, need);
    (inside ? item.steps : item.behind).push_back(index);
    return inside ? need : need / 2 * 2 + 1;
  }

  // Does it look at what a kernel of the item wrote? Other operands, such as a size, come from before.
  bool from_inside(int32_t index, int need) const {
    for (size_t i = 0; i < step(index).inputs.size(); ++i) {
      const auto it = place_.find(step(index).inputs[i]);
      const int place = it == place_.end() ? -1 : it->second;
      if (i == 0 ? place != need : place >= need) return false;
    }
    return true;
  }

  // A view inside a combo must not be read outside it. Bars those that are; false when there is none.
  bool bar_views() {
    const size_t before = barred_.size();
    for (const Item& item : items_) {
      for (int32_t index : item.steps) {
        if (!is_alias(step(index).op)) continue;
        const auto list = readers_.find(step(index).outputs[0]);
        const bool ends =
            list == readers_.end() || !std::all_of(list->second.begin(), list->second.end(), [&](int32_t reader) {
              return std::count(item.steps.begin(), item.steps.end(), reader) != 0;
            });
        if (ends) barred_.insert(index);
      }
    }
    return barred_.size() > before;
  }

  int32_t make(const Item& item) {
    Step combo;
    std::set<int32_t> inside;
    for (int32_t index : item.steps) {
      const Step& part = step(index);
      for (int32_t b : part.inputs) {
        if (b >= 0 && inside.count(b) == 0 && std::count(combo.inputs.begin(), combo.inputs.end(), b) == 0) {
          combo.inputs.push_back(b);
        }
      }
      inside.insert(part.outputs.begin(), part.outputs.end());
      if (part.op == kRegionOp) combo.outputs.insert(combo.outputs.end(), part.outputs.begin(), part.outputs.end());
      combo.origins.insert(combo.origins.end(), part.origins.begin(), part.origins.end());
    }
    combo.name = step(item.steps.front()).name + "&" + (item.parts > 2 ? "..&" : "") + step(item.steps.back()).name;
    return add_region_step(program_, std::move(combo), item.steps);
  }

  Program& program_;
  const std::map<int32_t, int64_t>& bytes_;
  const JoinRules& rules_;
  const std::map<int32_t, std::vector<int32_t>>& readers_;
  size_t block_;
  std::vector<int32_t> first_;  // what needs nothing of this block
  std::vector<Item> items_;
  std::map<int32_t, int> place_;  // of each buffer
  std::set<int32_t> barred_;
};

// Of each buffer, the steps that read it; -1: the end of a block. Regions stand for their steps.
std::map<int32_t, std::vector<int32_t>> readers_of(const Program& program, const std::vector<bool>& of_regions) {
  std::map<int32_t, std::vector<int32_t>> readers;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    if (of_regions[b]) continue;
    for (int32_t index : program.blocks[b].steps) {
      for (int32_t buffer : program.steps[static_cast<size_t>(index)].inputs) readers[buffer].push_back(index);
    }
    for (int32_t buffer : program.blocks[b].outputs) readers[buffer].push_back(-1);
  }
  return readers;
}

}  // namespace

std::vector<int32_t> join_launches(Program& program, const std::map<int32_t, int64_t>& bytes, const JoinRules& rules) {
  const std::vector<bool> of_regions = blocks_of_regions(program);
  const auto readers = readers_of(program, of_regions);
  std::vector<int32_t> made;
  const size_t blocks = program.blocks.size();
  for (size_t b = 0; b < blocks; ++b) {
    if (!of_regions[b]) Joiner(program, bytes, rules, readers, b).run(made);
  }
  return made;
}

namespace {

// Numbers of what is kept, in order; -1 for what goes.
std::vector<int32_t> renumber(const std::vector<bool>& gone) {
  std::vector<int32_t> numbers;
  int32_t next = 0;
  for (const bool goes : gone) numbers.push_back(goes ? -1 : next++);
  return numbers;
}

template <typename T>
void drop(std::vector<T>& list, const std::vector<bool>& gone) {
  size_t kept = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (gone[i]) continue;
    if (kept != i) list[kept] = std::move(list[i]);
    ++kept;
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(kept), list.end());
}

void give_numbers(std::vector<int32_t>& list, const std::vector<int32_t>& numbers) {
  for (int32_t& entry : list) entry = numbers[static_cast<size_t>(entry)];
}

}  // namespace

void part_launches(Program& program) {
  std::vector<bool> no_step(program.steps.size(), false), no_block(program.blocks.size(), false);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (!is_combo(program, program.steps[i])) continue;
    no_step[i] = true;
    no_block[static_cast<size_t>(program.steps[i].blocks[0])] = true;
  }
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    std::vector<int32_t> plain;
    for (int32_t index : program.blocks[b].steps) {
      const auto i = static_cast<size_t>(index);
      if (!no_step[i]) {
        plain.push_back(index);
        continue;
      }
      const std::vector<int32_t>& inside = program.blocks[static_cast<size_t>(program.steps[i].blocks[0])].steps;
      plain.insert(plain.end(), inside.begin(), inside.end());
    }
    program.blocks[b].steps = std::move(plain);
  }
  const std::vector<int32_t> steps = renumber(no_step), blocks = renumber(no_block);
  for (LedgerEntry& entry : program.ledger) {
    for (int32_t* step : {&entry.producer, &entry.consumer}) {
      *step = steps[static_cast<size_t>(*step)];
      if (*step < 0) throw Error(Code::ENGINE_RANGE, "the engine is damaged: its ledger names a combo");
    }
  }
  drop(program.steps, no_step);
  drop(program.blocks, no_block);
  for (Step& step : program.steps) give_numbers(step.blocks, blocks);
  for (Block& block : program.blocks) give_numbers(block.steps, steps);
}

}  // namespace deepjit
