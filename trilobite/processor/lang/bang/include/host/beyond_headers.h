// What libc++ keeps in its binary, for host programs that use it; a part is taken where its first word occurs.
//: __next_prime
namespace std { inline namespace __1 {
size_t __next_prime(size_t n) {
  for (size_t p = n < 3 ? (n < 2 ? 2 : n) : n | 1;; p += p == 2 ? 1 : 2) {
    bool prime = true;
    for (size_t d = 2; prime && d * d <= p; ++d) prime = p % d != 0;
    if (prime) return p;
  }
}
} }
//: __libcpp_refstring
namespace std {
inline namespace __1 {
static const char *__dlp_copied(const char *text) {
  size_t n = __builtin_strlen(text) + 1;
  return (const char *)__builtin_memcpy(malloc(n), text, n);
}
__libcpp_refstring::__libcpp_refstring(const char *text) : __imp_(__dlp_copied(text)) {}
__libcpp_refstring::__libcpp_refstring(const __libcpp_refstring &other) noexcept : __imp_(__dlp_copied(other.__imp_)) {}
__libcpp_refstring &__libcpp_refstring::operator=(const __libcpp_refstring &other) noexcept {
  __imp_ = __dlp_copied(other.__imp_);
  return *this;
}
__libcpp_refstring::~__libcpp_refstring() {}
}
exception::~exception() noexcept {}
const char *exception::what() const noexcept { return "std::exception"; }
#define __DLP_ERROR(name) \
  name::name(const string &text) : __imp_(text.c_str()) {} \
  name::name(const char *text) : __imp_(text) {} \
  name::name(const name &other) noexcept : __imp_(other.__imp_) {} \
  name &name::operator=(const name &other) noexcept { __imp_ = other.__imp_; return *this; } \
  name::~name() noexcept {} \
  const char *name::what() const noexcept { return __imp_.c_str(); }
__DLP_ERROR(logic_error) __DLP_ERROR(runtime_error)
#define __DLP_DERIVED(name) name::~name() noexcept {}
__DLP_DERIVED(invalid_argument) __DLP_DERIVED(domain_error) __DLP_DERIVED(length_error) __DLP_DERIVED(out_of_range)
__DLP_DERIVED(range_error) __DLP_DERIVED(overflow_error) __DLP_DERIVED(underflow_error)
}
//: __shared_weak_count
namespace std { inline namespace __1 {
__shared_count::~__shared_count() {}
__shared_weak_count::~__shared_weak_count() {}
void __shared_weak_count::__release_weak() noexcept { if (--__shared_weak_owners_ == -1) __on_zero_shared_weak(); }
__shared_weak_count *__shared_weak_count::lock() noexcept { return __shared_owners_ == -1 ? nullptr : (++__shared_owners_, this); }
const void *__shared_weak_count::__get_deleter(const type_info &) const noexcept { return nullptr; }
} }
