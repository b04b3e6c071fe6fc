// Halves among the values of a printf: C passes them as they are, and formats read doubles.
template <typename T> constexpr bool __dlp_is_narrow = __is_same(T, _Float16) || __is_same(T, __bf16);
template <bool> struct __dlp_where {};
template <> struct __dlp_where<true> { typedef int type; };
template <typename T> inline auto __dlp_promoted(T v) {
  if constexpr (__dlp_is_narrow<T>) return (double)(float)v; else return v;
}
extern "C" int __dlp_printf(const char *, ...) __asm__("printf");
extern "C" int __dlp_fprintf(void *, const char *, ...) __asm__("fprintf");
extern "C" int __dlp_sprintf(char *, const char *, ...) __asm__("sprintf");
extern "C" int __dlp_snprintf(char *, unsigned long, const char *, ...) __asm__("snprintf");
template <typename... A, typename __dlp_where<(__dlp_is_narrow<A> || ...)>::type = 0>
inline int printf(const char *format, A... values) { return __dlp_printf(format, __dlp_promoted(values)...); }
template <typename F, typename... A, typename __dlp_where<(__dlp_is_narrow<A> || ...)>::type = 0>
inline int fprintf(F *file, const char *format, A... values) { return __dlp_fprintf(file, format, __dlp_promoted(values)...); }
template <typename... A, typename __dlp_where<(__dlp_is_narrow<A> || ...)>::type = 0>
inline int sprintf(char *text, const char *format, A... values) { return __dlp_sprintf(text, format, __dlp_promoted(values)...); }
template <typename... A, typename __dlp_where<(__dlp_is_narrow<A> || ...)>::type = 0>
inline int snprintf(char *text, unsigned long size, const char *format, A... values) {
  return __dlp_snprintf(text, size, format, __dlp_promoted(values)...);
}
