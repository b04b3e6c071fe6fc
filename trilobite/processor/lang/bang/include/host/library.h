// What host programs need of the C++ library beyond its headers: memory, text, clocks, sorting.
#pragma GCC system_header
#include <algorithm>
#include <chrono>
#include <string>
extern "C" void *malloc(size_t);
extern "C" void free(void *);
extern "C" int snprintf(char *, size_t, const char *, ...);
extern "C" void abort(void);
extern "C" int clock_gettime(int, struct timespec *);
void *operator new(size_t n) { return malloc(n ? n : 1); }
void *operator new[](size_t n) { return malloc(n ? n : 1); }
void operator delete(void *p) noexcept { free(p); }
void operator delete[](void *p) noexcept { free(p); }
void operator delete(void *p, size_t) noexcept { free(p); }
void operator delete[](void *p, size_t) noexcept { free(p); }
extern "C" __attribute__((weak)) void __cxa_pure_virtual(void) { abort(); }
template class std::basic_string<char>;
// Exceptions are not caught: one that is thrown ends the program with what it says.
[[noreturn]] void __dlp_end(const char *);
[[noreturn]] static inline void __dlp_thrown() { __dlp_end("an exception"); }
template <typename T> [[noreturn]] static inline void __dlp_thrown(const T &thrown) {
  if constexpr (std::is_base_of<std::exception, T>::value) __dlp_end(thrown.what());
  else if constexpr (std::is_convertible<const T &, const char *>::value) __dlp_end(thrown);
  else if constexpr (std::is_same<T, std::string>::value) __dlp_end(thrown.c_str());
  else __dlp_thrown();
}
namespace std {
inline namespace __1 {
#define TEXT_OF(kind, form) \
  string to_string(kind value) { char text[512]; snprintf(text, sizeof(text), form, value); return text; }
TEXT_OF(int, "%d") TEXT_OF(unsigned, "%u") TEXT_OF(long, "%ld") TEXT_OF(unsigned long, "%lu")
TEXT_OF(long long, "%lld") TEXT_OF(unsigned long long, "%llu") TEXT_OF(float, "%f") TEXT_OF(double, "%f")
#define NUMBER_OF(kind, name, convert, ...) \
  kind name(const string &text, size_t *behind __VA_OPT__(,) __VA_ARGS__) { \
    char *end; \
    kind value = (kind)convert; \
    if (behind) *behind = end - text.c_str(); \
    return value; \
  }
NUMBER_OF(int, stoi, strtol(text.c_str(), &end, base), int base)
NUMBER_OF(long, stol, strtol(text.c_str(), &end, base), int base)
NUMBER_OF(unsigned long, stoul, strtoul(text.c_str(), &end, base), int base)
NUMBER_OF(long long, stoll, strtoll(text.c_str(), &end, base), int base)
NUMBER_OF(unsigned long long, stoull, strtoull(text.c_str(), &end, base), int base)
NUMBER_OF(float, stof, strtof(text.c_str(), &end))
NUMBER_OF(double, stod, strtod(text.c_str(), &end))
void __libcpp_verbose_abort(const char *, ...) noexcept { abort(); }
namespace chrono {
static nanoseconds since(int clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}
steady_clock::time_point steady_clock::now() noexcept { return time_point(since(1)); }
system_clock::time_point system_clock::now() noexcept { return time_point(duration_cast<system_clock::duration>(since(0))); }
}  // namespace chrono
template <typename T> static void sift(T *heap, ptrdiff_t root, ptrdiff_t n) {
  for (ptrdiff_t child = 2 * root + 1; child < n; root = child, child = 2 * root + 1) {
    if (child + 1 < n && heap[child] < heap[child + 1]) ++child;
    if (!(heap[root] < heap[child])) return;
    swap(heap[root], heap[child]);
  }
}
}  // namespace __1
}  // namespace std
// std::sort of plain numbers, by the names under which the library's headers call it.
#define SORTS(kind, letter) \
  void __dlp_sort(kind *first, kind *last, void *) __asm__("_ZNSt3__16__sortIRNS_6__lessI" letter letter "EEP" letter "EEvT0_S5_T_"); \
  void __dlp_sort(kind *first, kind *last, void *) { \
    ptrdiff_t n = last - first; \
    for (ptrdiff_t root = n / 2 - 1; root >= 0; --root) std::sift(first, root, n); \
    for (ptrdiff_t end = n - 1; end > 0; --end) { std::swap(first[0], first[end]); std::sift(first, 0, end); } \
  }
SORTS(char, "c") SORTS(signed char, "a") SORTS(unsigned char, "h") SORTS(short, "s") SORTS(unsigned short, "t")
SORTS(int, "i") SORTS(unsigned, "j") SORTS(long, "l") SORTS(unsigned long, "m") SORTS(long long, "x")
SORTS(unsigned long long, "y") SORTS(float, "f") SORTS(double, "d")
// Conversions of 16-bit floats, which clang calls where the computer has no instruction for them.
template <typename To, typename From> static inline To __dlp_bits(From x) {
  To out;
  __builtin_memcpy(&out, &x, sizeof(out));
  return out;
}
extern "C" {
__attribute__((weak)) float __extendhfsf2(_Float16 x) {
  unsigned h = __dlp_bits<unsigned short>(x), sign = (h & 0x8000u) << 16, size = h & 0x7fffu;
  if (size >= 0x7c00u) return __dlp_bits<float>(sign | 0x7f800000u | (size & 0x3ffu) << 13);
  if (size < 0x400u) {
    float small = (float)(int)size * 0x1p-24f;
    return sign ? -small : small;
  }
  return __dlp_bits<float>(sign | ((size << 13) + 0x38000000u));
}
__attribute__((weak)) _Float16 __truncsfhf2(float x) {
  unsigned bits = __dlp_bits<unsigned>(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu, out;
  if (size > 0x7f800000u) out = 0x7e00u;
  else if (size >= 0x477ff000u) out = 0x7c00u;
  else if (size < 0x38800000u) {
    float scaled = __dlp_bits<float>(size) + 0.5f;  // its last bits are those of a subnormal, rounded to even
    out = __dlp_bits<unsigned>(scaled) - 0x3f000000u;
  } else out = (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13;
  return __dlp_bits<_Float16>((unsigned short)(sign | out));
}
__attribute__((weak)) _Float16 __truncdfhf2(double x) {
  float near = (float)x;  // rounded to odd, so that the second rounding is the right one
  unsigned bits = __dlp_bits<unsigned>(near);
  if ((double)near != x && x == x && !(bits & 1u)) bits += ((double)near < x) == (x > 0) ? 1 : -1;
  return __truncsfhf2(__dlp_bits<float>(bits));
}
__attribute__((weak)) __bf16 __truncsfbf2(float x) {
  unsigned bits = __dlp_bits<unsigned>(x);
  unsigned out = x != x ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return __dlp_bits<__bf16>((unsigned short)out);
}
__attribute__((weak)) __bf16 __truncdfbf2(double x) { return __truncsfbf2((float)x); }
}
