// More of C++'s own library: what device code names of <type_traits>, <utility>, <tuple>, <functional> and
// <algorithm>, and what host members of its types name of <cstdio> and <cstdlib>.
#pragma once

#define TW_BOTH __host__ __device__
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define INT32_C(n) n
#define UINT32_C(n) n##u
#define INT64_C(n) n##ll
#define UINT64_C(n) n##ull
#define stdout ((void *)1)
#define stderr ((void *)2)

namespace std {
using ::remainder; using ::nearbyint; using ::lround; using ::lrint; using ::llround; using ::nextafter;
using ::acosh; using ::asinh; using ::atanh; using ::log1p; using ::logb; using ::scalbn; using ::memcmp;
typedef decltype(nullptr) nullptr_t;
enum class byte : unsigned char {};
template <size_t bytes, size_t align = bytes> struct aligned_storage {
    struct type { alignas(align) unsigned char data[bytes]; }; };
template <size_t bytes, size_t align = bytes> using aligned_storage_t = typename aligned_storage<bytes, align>::type;
template <class T> struct add_const { typedef const T type; };
template <class T> struct add_pointer { typedef remove_reference_t<T> *type; };
template <class T> struct make_unsigned { typedef __make_unsigned(T) type; };
template <class T> struct make_signed { typedef __make_signed(T) type; };
template <class T> using make_unsigned_t = __make_unsigned(T);
template <class T> using make_signed_t = __make_signed(T);
template <class T> struct underlying_type { typedef __underlying_type(T) type; };
template <class T> using underlying_type_t = __underlying_type(T);
#define TW_TRAIT(name) template <class T> struct name : bool_constant<__##name(T)> {}; \
    template <class T> inline constexpr bool name##_v = __##name(T);
TW_TRAIT(is_enum) TW_TRAIT(is_class) TW_TRAIT(is_reference) TW_TRAIT(is_array) TW_TRAIT(is_empty)
TW_TRAIT(is_union) TW_TRAIT(is_function) TW_TRAIT(is_object) TW_TRAIT(is_scalar)
template <class T> inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
template <class A, class B> inline constexpr bool is_convertible_v = __is_convertible(A, B);
template <class A, class B> inline constexpr bool is_base_of_v = __is_base_of(A, B);
template <class T, class... A> struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T> struct alignment_of : integral_constant<size_t, alignof(T)> {};
template <class T> struct negation : bool_constant<!T::value> {};
template <class... T> struct conjunction : bool_constant<(T::value && ...)> {};
template <class... T> struct disjunction : bool_constant<(T::value || ...)> {};
template <class... T> inline constexpr bool conjunction_v = (T::value && ...);
template <class... T> inline constexpr bool disjunction_v = (T::value || ...);
template <class...> using void_t = void;
template <class... T> struct common_type;
template <class T> struct common_type<T> { typedef decay_t<T> type; };
template <class A, class B> struct common_type<A, B> { typedef decay_t<decltype(true ? declval<A>() : declval<B>())> type; };
template <class A, class B, class... More> struct common_type<A, B, More...>
    : common_type<typename common_type<A, B>::type, More...> {};
template <class... T> using common_type_t = typename common_type<T...>::type;
template <class F, class... A> using invoke_result_t = decltype(declval<F>()(declval<A>()...));
template <class F, class... A> struct invoke_result { typedef invoke_result_t<F, A...> type; };
template <class T, T... values> struct integer_sequence {
    static constexpr TW_BOTH size_t size() { return sizeof...(values); } };
template <size_t... values> using index_sequence = integer_sequence<size_t, values...>;
template <size_t n> using make_index_sequence = __make_integer_seq<integer_sequence, size_t, n>;
template <class T, T n> using make_integer_sequence = __make_integer_seq<integer_sequence, T, n>;

template <class T> class initializer_list {
    const T *first; size_t count;
  public:
    typedef T value_type;
    constexpr TW_BOTH initializer_list() : first(nullptr), count(0) {}
    constexpr TW_BOTH size_t size() const { return count; }
    constexpr TW_BOTH const T *begin() const { return first; }
    constexpr TW_BOTH const T *end() const { return first + count; }
};
template <class T> constexpr TW_BOTH T min(initializer_list<T> all) {
    T r = *all.begin(); for (const T &one : all) if (one < r) r = one; return r; }
template <class T> constexpr TW_BOTH T max(initializer_list<T> all) {
    T r = *all.begin(); for (const T &one : all) if (r < one) r = one; return r; }
template <class T> constexpr TW_BOTH const T &clamp(const T &x, const T &low, const T &high) {
    return x < low ? low : high < x ? high : x; }
template <class T> constexpr TW_BOTH T *addressof(T &x) { return __builtin_addressof(x); }
template <class T, class U = T> constexpr TW_BOTH T exchange(T &x, U &&y) { T z = x; x = y; return z; }
template <class To, class From> constexpr TW_BOTH To bit_cast(const From &x) { return __builtin_bit_cast(To, x); }
template <class A, class B> constexpr TW_BOTH pair<decay_t<A>, decay_t<B>> make_pair(A &&a, B &&b) { return {a, b}; }

#define TW_FUNCTION(name, op) template <class T = void> struct name { \
        constexpr TW_BOTH auto operator()(const T &a, const T &b) const { return a op b; } }; \
    template <> struct name<void> { template <class A, class B> \
        constexpr TW_BOTH auto operator()(const A &a, const B &b) const { return a op b; } };
TW_FUNCTION(plus, +) TW_FUNCTION(minus, -) TW_FUNCTION(multiplies, *) TW_FUNCTION(divides, /) TW_FUNCTION(modulus, %)
TW_FUNCTION(less, <) TW_FUNCTION(greater, >) TW_FUNCTION(less_equal, <=) TW_FUNCTION(greater_equal, >=)
TW_FUNCTION(equal_to, ==) TW_FUNCTION(not_equal_to, !=) TW_FUNCTION(logical_and, &&) TW_FUNCTION(logical_or, ||)
TW_FUNCTION(bit_and, &) TW_FUNCTION(bit_or, |) TW_FUNCTION(bit_xor, ^)

template <class... T> struct tuple {};
template <class T, class... More> struct tuple<T, More...> {
    T tw_first; tuple<More...> tw_more;
    tuple() = default;
    constexpr TW_BOTH tuple(const T &first, const More &...more) : tw_first(first), tw_more(more...) {} };
template <size_t i, class T, class... More> constexpr TW_BOTH auto &get(tuple<T, More...> &t) {
    if constexpr (i == 0) return t.tw_first; else return get<i - 1>(t.tw_more); }
template <size_t i, class T, class... More> constexpr TW_BOTH const auto &get(const tuple<T, More...> &t) {
    if constexpr (i == 0) return t.tw_first; else return get<i - 1>(t.tw_more); }
template <class... T> constexpr TW_BOTH tuple<decay_t<T>...> make_tuple(T &&...all) { return {all...}; }
template <class> struct tuple_size;
template <class... T> struct tuple_size<tuple<T...>> : integral_constant<size_t, sizeof...(T)> {};
template <size_t i, class T> struct tuple_element { typedef remove_reference_t<decltype(get<i>(declval<T &>()))> type; };
template <size_t i, class T> using tuple_element_t = typename tuple_element<i, T>::type;

template <class It, class T> TW_BOTH void fill(It from, It to, const T &x) { for (; from != to; ++from) *from = x; }
template <class It, class Out> TW_BOTH Out copy(It from, It to, Out out) {
    for (; from != to; ++from) *out++ = *from; return out; }
template <class It, class T> TW_BOTH It lower_bound(It from, It to, const T &x) {
    while (from < to) { It half = from + (to - from) / 2; if (*half < x) from = half + 1; else to = half; }
    return from; }
template <class It, class T> TW_BOTH It upper_bound(It from, It to, const T &x) {
    while (from < to) { It half = from + (to - from) / 2; if (x < *half) to = half; else from = half + 1; }
    return from; }
}
