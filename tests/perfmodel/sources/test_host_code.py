"""Device code told from host code: what stays, what is blanked, and that no line moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.sources.host_code import device_code
from perfmodel.sources.tokens import tokens_of


def kept(source: str) -> str:
    """Device code with blanks folded; lines are checked to stay where they are."""
    found = device_code(source, "k.cu").text
    assert [len(line) for line in found.split("\n")] == [len(line) for line in source.split("\n")]
    return " ".join(found.split())


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void k(float *x) { x[0] = 1.0f; }",
        "template <int R, typename T = float> __global__ void k(T *x) { x[R] = T(1); }",
        'extern "C" __global__ void __launch_bounds__(256, 2) k(float *x) { }',
        'extern "C" { __global__ void k(float *x) { } }',
        "namespace a::b { inline namespace v1 { __device__ int f() { return 1; } } }",
        "static __device__ __forceinline__ float square(float x) { return x * x; }",
        "__host__ __device__ int both(int x) { return x; }",
        "__constant__ float filter[25] = {1, 2, 3};",
        "__device__ int counter;",
        "extern __shared__ float patch[];",
        "constexpr int twice(int x) { return 2 * x; }",
        "const int N = 8, M[2] = {1, 2};",
        "enum class Mode { FAST, SLOW };",
        "typedef float (*function)(float);",
        "using real = float;",
        "namespace cg = cooperative_groups;",
        "template <typename T> struct Pair { T a, b; };",
        "struct alignas(16) Vector { float x, y, z, w; };",
        "struct S { __device__ S(int a) : a_(a), b_{a} { } int a_, b_; };",
        "auto f = [] __device__ (int x) { return x; };",
        'static_assert(sizeof(int) == 4, "int");',
        "template <> __global__ void k<3>(float *x) { }",
        "template __global__ void k<5>(float *x);",
        "const float top = std::numeric_limits<float>::max();",
        "__device__ float operator+(Complex a, Complex b) { return a.x + b.x; }",
        "template <int A, bool B = (A > 3)> __global__ void k(float *x) { }",
    ],
)
def test_device_code_stays(source: str) -> None:
    assert kept(source) == " ".join(source.split())


@pytest.mark.parametrize(
    "source",
    [
        "int main() { return 0; }",
        "int main(int argc, char **argv) { k<<<1, 32>>>(x); }",
        "template <typename T> void launch(T *x) { k<T><<<1, 1>>>(x); }",
        "static inline double seconds() { return std::chrono::duration<double>(now()).count(); }",
        "std::vector<float> data(100);",
        "static float *host_pointer = nullptr;",
        "int helper(const std::string &name);",
        "struct Timer { cudaEvent_t start, stop; };",
        "struct Image { std::vector<float> pixels; __device__ float at(int i) { return 0; } };",
        "__host__ void check(int x) { if (x) exit(1); }",
        "template void launch<float>(float *x);",
        "void Timer::stop() { cudaEventRecord(stop_); }",
        "auto lambda = [](int x) { return x; };",
        "using Strings = std::vector<std::string>;",
        'const std::string text = "} {";',
        "cudaStream_t stream;",
        "int table[] = {1, 2, 3};",
        "bool operator<(const Key &a, const Key &b) { return a.x < b.x; }",
    ],
)
def test_host_code_is_blanked(source: str) -> None:
    assert kept(source) == ""


def test_macros_that_stand_for_a_qualifier_mark_device_code() -> None:
    source = (
        "#define DEVICE __device__ inline\n#define FAST DEVICE\nFAST int f() { return 1; }\nint g() { return 2; }\n"
    )
    assert kept(source) == "#define DEVICE __device__ inline #define FAST DEVICE FAST int f() { return 1; }"


def test_macros_that_make_kernels_are_declarations_of_their_own() -> None:
    source = "#define KERNEL(N) __global__ void k##N(float *x) { x[0] = N; }\nKERNEL(5)\nKERNEL(7);\nint main() { return 0; }\n"
    found = device_code(source, "k.cu")
    assert found.macro_kernels
    assert "KERNEL(5)\nKERNEL(7);" in found.text
    assert "main" not in found.text


def test_what_names_a_type_that_was_left_out_is_left_out_too() -> None:
    source = "struct Image { std::vector<float> pixels; };\nstruct Batch { Image first; };\n__device__ int x;\n"
    assert kept(source) == "__device__ int x;"


def test_member_functions_for_the_host_become_declarations() -> None:
    source = "struct M { float *data; M(int n) : data(0) { cudaMalloc(&data, n); } __device__ int f() { return 1; } };"
    assert kept(source) == "struct M { float *data; M(int n) ; __device__ int f() { return 1; } };"


def test_member_functions_with_a_signature_of_the_host_go() -> None:
    assert kept('struct M { int n; std::string name() const { return ""; } };') == "struct M { int n; };"


def test_directives_stay_even_inside_host_functions() -> None:
    source = "int main() {\n#ifdef FAST\n  f('{');\n#else\n  g();\n#endif\n}\n__device__ int x;\n"
    assert kept(source) == "#ifdef FAST #else #endif __device__ int x;"


def test_brackets_in_comments_and_texts_do_not_count() -> None:
    source = '__global__ void k() { /* } */ const char *t = "}"; char c = \'}\'; // }\n const char *r = R"(})"; }\nint main() { }'
    assert kept(source).endswith('R"(})"; }')


def test_kernels_are_listed_with_their_parameters() -> None:
    source = (
        "namespace ns { template <int R> __global__ void "
        "conv(const float *__restrict__ in, float (&out)[4], int n = f(1, 2)) { } }\n"
        "__global__ void plain();\n__global__ void plain() { }\n"
    )
    found = device_code(source, "k.cu").kernels
    assert [kernel.name for kernel in found] == ["ns::conv", "plain"]
    assert found[0].parameters == ("const float *__restrict__ in", "float (&out)[4]", "int n = f(1, 2)")
    assert found[0].template
    assert found[1].parameters == ()


def test_dynamic_parallelism_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"k\.cu:2: device code launches a kernel"):
        device_code("__global__ void a() { }\n__global__ void b() { a<<<1, 1>>>(); }\n", "k.cu")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "__global__ void k() {\n#ifdef A\n if (x) {\n#else\n if (y) {\n#endif\n }\n}\n",
            r"k\.cu:1: '\{' has no matching '\}'",
        ),
        ("__global__ void k() { }\n}\n", r"k\.cu:2: '\}' has no matching '\{'"),
        ("int a;\n/* never\n", r"k\.cu:2: the comment is never closed"),
        ('#line 7 "own.cuh"\nvoid f( {\n', r"own\.cuh:7: '\(' has no matching"),
    ],
)
def test_brackets_that_do_not_match_are_refused_with_file_and_line(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        device_code(source, "k.cu")


@given(st.text(alphabet="{}()<>;:=,#\"'/*\\\n abAB01_", max_size=80))
def test_no_text_makes_the_splitter_fail_otherwise(source: str) -> None:
    try:
        found = device_code(source, "k.cu")
    except InputError:
        return
    assert found.text.count("\n") == source.count("\n")


@given(st.text(st.characters(min_codepoint=9, max_codepoint=0x2FF), max_size=60))
def test_tokens_stand_where_they_say(source: str) -> None:
    try:
        tokens = tokens_of(source, "k.cu")
    except InputError:
        return
    assert all(source[token.start : token.stop] == token.text for token in tokens)
