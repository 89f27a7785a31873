"""Listings on a page: the fences they become, folded where long."""

from tilewise.outputs import Context
from tilewise.outputs.listing import Beside, Listing, Row

CONTEXT = Context("part/one", 1, lambda suffix, content: "file", str)
SHORT = Listing("FFMA R0, R1, R2, R0\nEXIT", "the end")
BESIDE = Beside(
    (
        Row(3, "int i = threadIdx.x;", ("mov.u32 %r1, %tid.x;",), ("S2R R0, SR_TID.X",)),
        Row(4, "y[i] = 1.0f;", ("st.global.u32 [%rd1], 1;",), ()),
    ),
    "sm_90",
)


def test_a_short_listing_is_a_fence_with_its_title():
    assert SHORT.markdown(CONTEXT) == (
        '``` { .nvidia-sass .tw-listing title="the end" }\nFFMA R0, R1, R2, R0\nEXIT\n```'
    )
    assert SHORT.text() == "the end\nFFMA R0, R1, R2, R0\nEXIT"


def test_a_long_listing_is_folded():
    text = Listing("NOP\n" * 31, "long").markdown(CONTEXT)
    assert text.startswith('??? code "long: 31 lines"\n\n    ``` { .nvidia-sass .tw-listing }')


def test_each_line_has_its_ptx_and_its_machine_code_below_it():
    text = BESIDE.markdown(CONTEXT)
    assert text.startswith('///// html | div.tw-translated\n\n``` { .cuda .no-copy linenums="3" }')
    assert '``` { .nvidia-ptx .no-copy title="PTX" }\nmov.u32 %r1, %tid.x;\n```' in text
    assert '``` { .nvidia-sass .no-copy title="SASS, sm_90" }\nS2R R0, SR_TID.X\n```' in text
    assert "/// html | div.tw-translated-none\n\nno SASS\n\n///" in text
    assert BESIDE.text().splitlines()[0] == "   3  int i = threadIdx.x;"
