#include "constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vpu::fuzz {
namespace {

class Filler {
 public:
  Filler(Case* c, Random* random) : c_(*c), random_(*random) {}

  void run() {
    for (size_t t = 0; t < c_.program.tensors.size(); ++t) fill(t);
    for (const auto& instruction : c_.program.instructions) correct(*instruction);
  }

 private:
  void fill(size_t index) {
    const schema::TensorT& tensor = c_.tensor(index);
    Bytes& data = c_.constants[index];
    if (tensor.storage != schema::Storage_Constant || c_.root(index) != index) return;
    const size_t old = data.size();
    data.resize(static_cast<size_t>(elements_of(tensor.shape)) * element_bytes(tensor.dtype));
    for (size_t i = old; i < data.size(); ++i) data[i] = static_cast<uint8_t>(random_.next() >> 32);
  }

  void correct(const schema::InstructionT& i) {
    if (i.op.AsConv2d() != nullptr || i.op.AsLinear() != nullptr) {
      weighted(i);
    } else if (i.op.AsSoftmax() != nullptr) {
      exponentials(c_.constants[i.inputs[1]]);
    } else if (i.op.AsBatchNorm() != nullptr) {
      multipliers(c_.constants[i.inputs[1]]);
      multipliers(c_.constants[i.inputs[2]]);
    }
  }

  template <class T, class F>
  static void map(Bytes& data, F f) {
    for (size_t i = 0; i + sizeof(T) <= data.size(); i += sizeof(T)) {
      T value;
      std::memcpy(&value, data.data() + i, sizeof(T));
      value = f(value);
      std::memcpy(data.data() + i, &value, sizeof(T));
    }
  }

  // No sum may overflow.
  void weighted(const schema::InstructionT& i) {
    map<int8_t>(c_.constants[i.inputs[1]], [](int8_t w) { return std::max<int8_t>(w, -127); });
    const Shape& shape = c_.tensor(i.inputs[1]).shape;
    const double largest = elements_of(shape) / shape[0] * 127 * 255;
    const auto room = static_cast<int64_t>(std::max(0.0, 2147483647.0 - largest));
    map<int32_t>(c_.constants[i.inputs[2]], [&](int32_t bias) {
      return static_cast<int32_t>(std::clamp<int64_t>(bias, -room, room));
    });
    multipliers(c_.constants[i.inputs[3]]);
  }

  void multipliers(Bytes& data) {
    map<float>(data, [&](float value) {
      const float size = std::fabs(value);
      if (value == 0 || (size >= 1e-12f && size <= 1e18f)) return value;
      return std::ldexp(static_cast<float>(random_.between(1, 3)), -random_.between(0, 14));
    });
  }

  static void exponentials(Bytes& data) {
    bool first = true;
    map<int32_t>(data, [&](int32_t e) {
      const int32_t least = first ? 1 : 0;
      first = false;
      return e >= least && e <= 1 << 23 ? e : (e & 0xffff) + 1;
    });
  }

  Case& c_;
  Random& random_;
};

}  // namespace

void fill_constants(Case* c, Random* random) { Filler(c, random).run(); }

}  // namespace vpu::fuzz
