#include "case.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "interpreter/blob.h"
#include "interpreter/crc32.h"

namespace vpu::fuzz {
namespace {

constexpr size_t kHeaderSize = 64;
constexpr size_t kChecksummedHeader = 32;
constexpr size_t kAlignment = 64;

size_t aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

uint64_t field(const uint8_t* data, size_t offset) {
  uint64_t value = 0;
  std::memcpy(&value, data + offset, sizeof(value));
  return value;
}

template <class T>
void set_field(Bytes* blob, size_t offset, T value) {
  std::memcpy(blob->data() + offset, &value, sizeof(value));
}

// A tensor that nothing writes, but that lies where another was written or is passed, is that one
// in another shape.
void find_bases(Case* c) {
  using Place = std::pair<schema::Storage, uint64_t>;
  std::map<Place, size_t> defined;
  std::vector<bool> defines(c->program.tensors.size(), false);
  const auto define = [&](size_t index) {
    if (index >= c->program.tensors.size()) return;
    defined[{c->tensor(index).storage, c->tensor(index).offset}] = index;
    defines[index] = true;
  };
  for (const auto& argument : c->program.inputs) define(argument->tensor);
  for (const auto& instruction : c->program.instructions) define(instruction->output);
  for (size_t i = 0; i < c->program.tensors.size(); ++i) {
    const auto found = defined.find({c->tensor(i).storage, c->tensor(i).offset});
    if (!defines[i] && found != defined.end() &&
        elements_of(c->tensor(found->second).shape) == elements_of(c->tensor(i).shape)) {
      c->bases[i] = static_cast<int32_t>(found->second);
    }
  }
}

}  // namespace

size_t Case::add(const schema::TensorT& tensor, Bytes constant, int32_t base) {
  program.tensors.push_back(std::make_unique<schema::TensorT>(tensor));
  constants.push_back(std::move(constant));
  bases.push_back(base);
  return program.tensors.size() - 1;
}

size_t element_bytes(schema::DType dtype) { return dtype == schema::DType_Int8 ? 1 : 4; }

double elements_of(const Shape& shape) {
  double product = 1;
  for (const int32_t size : shape) product *= std::max(size, 0);
  return product;
}

double constant_bytes(const Case& c) {
  double sum = 0;
  for (const auto& tensor : c.program.tensors) {
    if (tensor->storage != schema::Storage_Constant) continue;
    sum += elements_of(tensor->shape) * static_cast<double>(element_bytes(tensor->dtype));
  }
  return sum;
}

bool read_case(const uint8_t* data, size_t size, Case* out) {
  if (size < kHeaderSize) return false;
  const uint64_t program_size = field(data, 8);
  if (program_size > size - kHeaderSize) return false;
  flatbuffers::Verifier verifier(data + kHeaderSize, static_cast<size_t>(program_size));
  if (!schema::VerifyProgramBuffer(verifier)) return false;
  schema::GetProgram(data + kHeaderSize)->UnPackTo(&out->program);
  const size_t count = out->program.tensors.size();
  out->constants.assign(count, {});
  out->bases.assign(count, kNoBase);
  const size_t section = std::min(aligned(kHeaderSize + static_cast<size_t>(program_size)), size);
  for (size_t i = 0; i < count; ++i) {
    const schema::TensorT& tensor = out->tensor(i);
    if (tensor.storage != schema::Storage_Constant) continue;
    const double bytes =
        elements_of(tensor.shape) * static_cast<double>(element_bytes(tensor.dtype));
    if (bytes > static_cast<double>(size - section) ||
        tensor.offset > size - section - static_cast<size_t>(bytes)) {
      continue;
    }
    const uint8_t* begin = data + section + tensor.offset;
    out->constants[i].assign(begin, begin + static_cast<size_t>(bytes));
  }
  find_bases(out);
  return count > 0 && !out->program.instructions.empty();
}

Bytes place_constants(Case* c) {
  Bytes section;
  std::map<Bytes, size_t> known;
  for (size_t i = 0; i < c->program.tensors.size(); ++i) {
    if (c->tensor(i).storage != schema::Storage_Constant) continue;
    const Bytes& data = c->constants[c->root(i)];
    const auto [place, is_new] = known.insert({data, aligned(section.size())});
    if (is_new) {
      section.resize(place->second);
      section.insert(section.end(), data.begin(), data.end());
    }
    c->tensor(i).offset = place->second;
  }
  return section;
}

Bytes pack(const schema::ProgramT& program, const Bytes& constants) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(schema::Program::Pack(builder, &program), schema::ProgramIdentifier());
  return pack(Bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()),
              constants);
}

Bytes pack(const Bytes& flatbuffer, const Bytes& constants) {
  Bytes blob(aligned(kHeaderSize + flatbuffer.size()));
  std::memcpy(blob.data(), "VPUB", 4);
  set_field(&blob, 4, kBlobVersion);
  set_field(&blob, 8, uint64_t{flatbuffer.size()});
  set_field(&blob, 16, uint64_t{blob.size()});
  set_field(&blob, 24, uint64_t{constants.size()});
  std::copy(flatbuffer.begin(), flatbuffer.end(), blob.begin() + kHeaderSize);
  blob.insert(blob.end(), constants.begin(), constants.end());
  seal(&blob);
  return blob;
}

void seal(Bytes* blob) {
  if (blob->size() < kHeaderSize) return;
  const uint32_t crc = crc32(crc32(0, blob->data(), kChecksummedHeader), blob->data() + kHeaderSize,
                             blob->size() - kHeaderSize);
  set_field(blob, kChecksummedHeader, crc);
}

}  // namespace vpu::fuzz
