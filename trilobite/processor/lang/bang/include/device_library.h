// Functions of the C library that device code may call without a body of their own; see device_library.py.
extern "C" __attribute__((used)) unsigned long __dlp_lib_strlen(const char *s) {
  unsigned long n = 0;
  while (s[n]) ++n;
  return n;
}
extern "C" __attribute__((used)) int __dlp_lib_strcmp(const char *a, const char *b) {
  while (*a && *a == *b) ++a, ++b;
  return (int)(unsigned char)*a - (int)(unsigned char)*b;
}
extern "C" __attribute__((used)) int __dlp_lib_strncmp(const char *a, const char *b, unsigned long n) {
  for (; n && *a && *a == *b; --n) ++a, ++b;
  return n ? (int)(unsigned char)*a - (int)(unsigned char)*b : 0;
}
extern "C" __attribute__((used)) char *__dlp_lib_strcpy(char *to, const char *from) {
  char *at = to;
  while ((*at++ = *from++)) {}
  return to;
}
extern "C" __attribute__((used)) const char *__dlp_lib_strchr(const char *s, int c) {
  for (;; ++s) {
    if (*s == (char)c) return s;
    if (!*s) return nullptr;
  }
}
extern "C" __attribute__((used)) int __dlp_lib_memcmp(const void *x, const void *y, unsigned long n) {
  const unsigned char *a = (const unsigned char *)x, *b = (const unsigned char *)y;
  for (; n; --n, ++a, ++b)
    if (*a != *b) return (int)*a - (int)*b;
  return 0;
}
extern "C" __attribute__((used)) int __dlp_lib_bcmp(const void *x, const void *y, unsigned long n) {
  const unsigned char *a = (const unsigned char *)x, *b = (const unsigned char *)y;
  for (; n; --n, ++a, ++b)
    if (*a != *b) return 1;
  return 0;
}
extern "C" __attribute__((used)) const void *__dlp_lib_memchr(const void *x, int c, unsigned long n) {
  const unsigned char *a = (const unsigned char *)x;
  for (; n; --n, ++a)
    if (*a == (unsigned char)c) return a;
  return nullptr;
}
extern "C" __attribute__((used)) const int *__dlp_lib_wmemchr(const int *s, int c, unsigned long n) {
  for (; n; --n, ++s)
    if (*s == c) return s;
  return nullptr;
}
extern "C" __attribute__((used)) int __dlp_lib_wmemcmp(const int *a, const int *b, unsigned long n) {
  for (; n; --n, ++a, ++b)
    if (*a != *b) return *a < *b ? -1 : 1;
  return 0;
}
extern "C" __attribute__((used)) void __dlp_lib_qsort(void *base, unsigned long count, unsigned long size, int (*order)(const void *, const void *)) {
  char *first = (char *)base;
  for (unsigned long root = count / 2, end = count; end > 1;) {
    if (root > 0) --root;
    else {
      --end;
      for (unsigned long i = 0; i < size; ++i) { char kept = first[i]; first[i] = first[end * size + i]; first[end * size + i] = kept; }
    }
    for (unsigned long at = root, child = 2 * at + 1; child < end; child = 2 * at + 1) {
      if (child + 1 < end && order(first + child * size, first + (child + 1) * size) < 0) ++child;
      if (order(first + at * size, first + child * size) >= 0) break;
      for (unsigned long i = 0; i < size; ++i) { char kept = first[at * size + i]; first[at * size + i] = first[child * size + i]; first[child * size + i] = kept; }
      at = child;
    }
  }
}
extern "C" __attribute__((used)) void *__dlp_lib_bsearch(const void *key, const void *base, unsigned long count, unsigned long size, int (*order)(const void *, const void *)) {
  const char *first = (const char *)base;
  while (count) {
    const char *middle = first + count / 2 * size;
    int side = order(key, middle);
    if (side == 0) return (void *)middle;
    if (side > 0) { first = middle + size; count -= count / 2 + 1; }
    else count /= 2;
  }
  return nullptr;
}
