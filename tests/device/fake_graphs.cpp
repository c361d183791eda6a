#include "fake_graphs.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace fake_cudnn {

namespace {

using Ints = std::vector<int64_t>;

// A tensor of the graph with its memory: float values at places of its dims.
struct View {
  int type = 0;  // 0 float32, 2 float16, 9 bfloat16
  Ints dims, strides;
  char* data = nullptr;

  int64_t place(const Ints& at) const {
    int64_t place = 0;
    for (size_t i = 0; i < dims.size(); ++i) place += (dims[i] == 1 ? 0 : at[i]) * strides[i];
    return place;
  }
  float get(const Ints& at) const {
    const int64_t i = place(at);
    if (type == 0) return reinterpret_cast<const float*>(data)[i];
    if (type == 2) return static_cast<float>(reinterpret_cast<const _Float16*>(data)[i]);
    const uint32_t bits = uint32_t{reinterpret_cast<const uint16_t*>(data)[i]} << 16;
    float value = 0;
    return std::memcpy(&value, &bits, 4), value;
  }
  void set(const Ints& at, float value) const {
    const int64_t i = place(at);
    if (type == 0) {
      reinterpret_cast<float*>(data)[i] = value;
    } else if (type == 2) {
      reinterpret_cast<_Float16*>(data)[i] = static_cast<_Float16>(value);
    } else {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      reinterpret_cast<uint16_t*>(data)[i] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
  }
};

template <typename F>
void for_each_place(const Ints& dims, F&& body) {
  Ints at(dims.size(), 0);
  for (int64_t left = std::max<int64_t>(1,
                                        [&] {
                                          int64_t n = 1;
                                          for (int64_t d : dims) n *= d;
                                          return n;
                                        }());
       left > 0; --left) {
    body(at);
    for (size_t i = dims.size(); i-- > 0;) {
      if (++at[i] < dims[i]) break;
      at[i] = 0;
    }
  }
}

// The graph at work.
class Run {
 public:
  Run(const Descriptor& graph, std::map<int64_t, char*> memory) : graph_(graph), memory_(std::move(memory)) {}

  void all() {
    for (const Shared& op : graph_.objects(801)) {
      if (op->type == CONV_FORWARD) convolve(*op);
      if (op->type == OP_MATMUL) multiply(*op);
      if (op->type == OP_POOL) pool(*op);
      if (op->type == OP_ATTENTION) attend(*op);
      if (op->type == OP_POINTWISE) pointwise(*op);
    }
  }

 private:
  View view(const Descriptor& tensor) {
    View v{tensor.one<int>(901), tensor.list<int64_t>(902), tensor.list<int64_t>(903), nullptr};
    const auto id = tensor.one<int64_t>(906);
    char*& data = memory_[id];
    if (data == nullptr) {  // a virtual one
      int64_t last = 1;
      for (size_t i = 0; i < v.dims.size(); ++i) last += (v.dims[i] - 1) * v.strides[i];
      own_.emplace_back(static_cast<size_t>(last) * 4);
      data = own_.back().data();
    }
    v.data = data;
    return v;
  }

  void convolve(const Descriptor& op) {
    const Descriptor& conv = op.object(702);
    const View w = view(op.object(703)), x = view(op.object(704)), y = view(op.object(705));
    const Ints strides = conv.list<int64_t>(103), dilations = conv.list<int64_t>(102), pads = conv.list<int64_t>(105);
    const int64_t groups = x.dims[1] / w.dims[1], per_group = w.dims[0] / groups;
    for_each_place(y.dims, [&](const Ints& to) {
      float sum = 0;
      Ints taps(w.dims.begin() + 1, w.dims.end());
      for_each_place(taps, [&](const Ints& tap) {
        Ints from = to, weight = to;
        weight.resize(w.dims.size());
        weight[0] = to[1];
        weight[1] = tap[0];
        from[1] = to[1] / per_group * w.dims[1] + tap[0];
        for (size_t i = 2; i < from.size(); ++i) {
          weight[i] = tap[i - 1];
          from[i] = to[i] * strides[i - 2] + tap[i - 1] * dilations[i - 2] - pads[i - 2];
          if (from[i] < 0 || from[i] >= x.dims[i]) return;
        }
        sum += x.get(from) * w.get(weight);
      });
      y.set(to, sum);
    });
  }

  void multiply(const Descriptor& op) {
    const View a = view(op.object(1520)), b = view(op.object(1521)), c = view(op.object(1522));
    const int64_t terms = a.dims.back();
    for_each_place(c.dims, [&](const Ints& to) {
      float sum = 0;
      Ints left = to, right = to;
      for (int64_t k = 0; k < terms; ++k) {
        left.back() = right[right.size() - 2] = k;
        sum += a.get(left) * b.get(right);
      }
      c.set(to, sum);
    });
  }

  void pool(const Descriptor& op) {
    const Descriptor& desc = op.object(1716);
    const int mode = desc.one<int>(1700);
    const View x = view(op.object(1710)), y = view(op.object(1711));
    const Ints window = desc.list<int64_t>(1706), strides = desc.list<int64_t>(1705), pads = desc.list<int64_t>(1704);
    for_each_place(y.dims, [&](const Ints& to) {
      float sum = 0, most = -INFINITY, seen = 0, all = 0;
      for_each_place(window, [&](const Ints& tap) {
        Ints from = to;
        ++all;
        for (size_t i = 0; i < 2; ++i) {
          from[i + 2] = to[i + 2] * strides[i] + tap[i] - pads[i];
          if (from[i + 2] < 0 || from[i + 2] >= x.dims[i + 2]) return;
        }
        ++seen;
        sum += x.get(from);
        most = std::max(most, x.get(from));
      });
      y.set(to, mode == 3 ? most : sum / (mode == 2 ? all : seen));
    });
  }

  void attend(const Descriptor& op) {
    const View q = view(op.object(2800)), k = view(op.object(2801)), v = view(op.object(2802)),
               o = view(op.object(2803));
    const float scale = view(op.object(2805)).get({0, 0, 0, 0});
    const int64_t group = q.dims[1] / k.dims[1];
    for_each_place({q.dims[0], q.dims[1], q.dims[2]}, [&](const Ints& at) {
      std::vector<float> scores;
      for (int64_t key = 0; key < k.dims[2]; ++key) {
        float sum = 0;
        for (int64_t e = 0; e < q.dims[3]; ++e) {
          sum += q.get({at[0], at[1], at[2], e}) * k.get({at[0], at[1] / group, key, e});
        }
        scores.push_back(sum * scale);
      }
      const float most = *std::max_element(scores.begin(), scores.end());
      float total = 0;
      for (float& score : scores) total += score = std::exp(score - most);
      for (int64_t e = 0; e < q.dims[3]; ++e) {
        float sum = 0;
        for (size_t key = 0; key < scores.size(); ++key) {
          sum += scores[key] * v.get({at[0], at[1] / group, static_cast<int64_t>(key), e});
        }
        o.set({at[0], at[1], at[2], e}, sum / total);
      }
    });
  }

  void pointwise(const Descriptor& op) {
    const Descriptor& desc = op.object(750);
    const int mode = desc.one<int>(0);
    const View x = view(op.object(751)), y = view(op.object(753));
    const View b = op.objects(752).empty() ? x : view(op.object(752));
    const float lower = desc.one<float>(3, 0), upper = desc.one<float>(4, INFINITY), slope = desc.one<float>(5, 0);
    for_each_place(y.dims, [&](const Ints& at) {
      const float l = x.get(at), r = b.get(at);
      switch (mode) {
        case 0:
          return y.set(at, l + r);
        case 1:
          return y.set(at, l * r);
        case 9:
          return y.set(at, l - r);
        case 100:
          return y.set(at, std::min(l < lower ? lower + slope * (l - lower) : l, upper));
        case 102:
          return y.set(at, 1 / (1 + std::exp(-l)));
        case 106:
          return y.set(at, l / (1 + std::exp(-l)));
        default:
          return y.set(at, NAN);
      }
    });
  }

  const Descriptor& graph_;
  std::map<int64_t, char*> memory_;
  std::vector<Bytes> own_;
};

}  // namespace

bool is_known(const Descriptor& graph) {
  const auto& ops = graph.objects(801);
  return std::all_of(ops.begin(), ops.end(), [](const Shared& op) {
    return op->type == CONV_FORWARD || op->type == OP_MATMUL || op->type == OP_POINTWISE || op->type == OP_POOL ||
           op->type == OP_ATTENTION;
  });
}

void run_graph(const Descriptor& graph, std::map<int64_t, char*> memory) { Run(graph, std::move(memory)).all(); }

}  // namespace fake_cudnn
