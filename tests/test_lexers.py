"""The lexers of compiled code: no word of the course's kernels is an error, and kinds are told apart."""

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Name, Number

SASS = r"""
.L_x_1:
@!P0 LDG.E.128 R4, desc[UR4][R2.64+-0x10]
     FFMA.FTZ R7, R2.reuse, -UR6, R7  // a comment
     MOV R3, c[0x0][0x28]
     S2R R0, SR_TID.X
     FSETP.GTU.FTZ.AND P0, PT, |R17|, +INF , PT
@UP1 BRA `(.L_x_1)
     CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div)
"""
PTX = r"""
	// a comment
	.reg .pred 	%p<2>;
$L__BB0_2:
	ld.param.u64 	%rd1, [vec_add_param_0];
	mov.u32 	%r3, %ctaid.x;
	@!%p1 bra 	$L__BB0_2;
	fma.rn.ftz.f32 	%f4, %f2, 0f3F800000, %f3;
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3}], [%r5];
"""


def kinds(lexer: str, text: str) -> dict[str, object]:
    return {word: kind for kind, word in get_lexer_by_name(lexer).get_tokens(text) if word.strip()}


def test_words_of_machine_code_have_their_kinds():
    found = kinds("nvidia-sass", SASS)
    assert Error not in found.values()
    assert found[".L_x_1"] is Name.Label
    assert (found["@!P0"], found["@UP1"]) == (Keyword.Type, Keyword.Type)
    assert (found["LDG.E.128"], found["FFMA.FTZ"]) == (Name.Builtin, Keyword)
    assert found["FSETP.GTU.FTZ.AND"] is Keyword
    assert (found["BRA"], found["CALL.REL.NOINC"]) == (Keyword.Reserved, Keyword.Reserved)
    assert {found[name] for name in ("R4", "UR4", "R17", "P0", "PT")} == {Name.Variable}
    assert (found["SR_TID.X"], found["desc"], found["c"]) == (Name.Constant,) * 3
    assert (found["-0x10"], found["0x28"]) == (Number, Number)
    assert found["// a comment"] is Comment.Single


def test_words_of_ptx_have_their_kinds():
    found = kinds("nvidia-ptx", PTX)
    assert Error not in found.values()
    assert found["$L__BB0_2"] is Name.Label
    assert found["@!%p1"] is Keyword.Type
    assert (found["ld.param.u64"], found["fma.rn.ftz.f32"]) == (Name.Builtin, Keyword)
    assert any(word.startswith("cp.async.bulk") and kind is Name.Builtin for word, kind in found.items())
    assert (found["%rd1"], found["%ctaid.x"]) == (Name.Variable, Name.Constant)
    assert found["bra"] is Keyword.Reserved
    assert found["0f3F800000"] is Number
    assert found["// a comment"] is Comment.Single


def test_a_kernel_in_a_string_has_the_kinds_of_cuda_and_no_character_is_lost():
    kernel = "__global__ void f(int* x) { x[threadIdx.x] = 1; }"
    text = f'n = 8\nSOURCE = r"""\n{kernel}\n"""\ndoc = r"""int"""\ndef g(): pass\n'
    found = kinds("python-cuda", text)
    assert (found["__global__"], found["void"], found["threadIdx"]) == (
        Keyword.Reserved,
        Keyword.Type,
        Name.Builtin,
    )
    assert (found["SOURCE"], found["def"], found["g"]) == (Name, Keyword, Name.Function)
    assert "int" in found
    tokens = list(get_lexer_by_name("python-cuda").get_tokens_unprocessed(text))
    assert "".join(value for _, _, value in tokens) == text
    assert all(text[at : at + len(value)] == value for at, _, value in tokens)
