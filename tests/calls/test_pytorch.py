"""Functions on tensors of PyTorch, wherever they are, and attention with gradients in a model."""

import numpy as np
import pytest

from tilewise import kernels
from tilewise.cuda.kernel_source import KernelError

torch = pytest.importorskip("torch", reason="needs PyTorch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tensor(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_results_are_tensors_of_the_same_type_and_place(dtype):
    x = tensor(5, 6, 101, dtype=dtype)
    for given in (x, x[1:, :, 1:], x.transpose(0, 1)):
        made = kernels.softmax(given)
        assert (made.dtype, made.device, made.shape) == (given.dtype, given.device, given.shape)
        expected = torch.softmax(given.double(), -1)
        assert torch.allclose(made.double(), expected, atol=1e-2 if dtype != torch.float32 else 1e-6)
    assert torch.allclose(kernels.sum(x).double(), x.double().sum(), rtol=1e-2, atol=1e-1)
    assert torch.equal(kernels.transpose(x), x.mT)
    product = kernels.matmul(x, x.mT)
    assert torch.allclose(product.double(), x.double() @ x.double().mT, rtol=2e-2, atol=1e-1)


def test_a_result_is_written_to_a_tensor_that_is_given():
    x = tensor(3, 50)
    out = torch.empty_like(x)
    assert kernels.softmax(x, out=out) is out
    assert torch.allclose(out, torch.softmax(x, -1), atol=1e-6)
    with pytest.raises(KernelError, match=r'"out" shares memory with "x"'):
        kernels.softmax(x, out=x)


def test_arrays_of_two_places_are_refused():
    x = tensor(4, 4)
    with pytest.raises(KernelError, match=r'^matmul: "b" is a NumPy array, and "a" is '):
        kernels.matmul(x, np.zeros((4, 4), np.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_gradients_are_those_of_pytorch(dtype, causal):
    ours = [tensor(2, 4 if at == 0 else 2, 70, 64, dtype=dtype).requires_grad_() for at in range(3)]
    theirs = [one.detach().double().requires_grad_() for one in ours]
    how = {"is_causal": causal, "enable_gqa": True}
    out = kernels.scaled_dot_product_attention(*ours, **how)
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, **how)
    weights = tensor(*out.shape)
    (out * weights.to(dtype)).sum().backward()
    (expected * weights.double()).sum().backward()
    room = 1e-4 if dtype == torch.float32 else 5e-2
    assert torch.allclose(out.double(), expected, atol=room)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.grad.dtype, one.grad.shape) == (dtype, one.shape)
        assert torch.allclose(one.grad.double(), other.grad, rtol=room, atol=2 * room)


def test_a_small_model_trains_as_with_pytorchs_own_attention(monkeypatch):
    def losses():
        torch.manual_seed(3)
        layer = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True).to(DEVICE)
        weights = torch.nn.Linear(32, 96).to(DEVICE)
        steps = [*layer.linear1.parameters(), *layer.linear2.parameters(), *weights.parameters()]
        optimiser = torch.optim.SGD(steps, lr=0.1)
        x, goal, found = tensor(2, 20, 32), tensor(2, 20, 32) * 0.5, []
        for _ in range(4):
            heads = weights(x).view(2, 20, 3, 2, 16).permute(2, 0, 3, 1, 4)
            attended = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            mixed = attended.transpose(1, 2).reshape(2, 20, 32)
            loss = (layer.linear2(torch.relu(layer.linear1(mixed))) - goal).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            found.append(loss.item())
        return found

    expected = losses()
    calls = []
    ours = kernels.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or ours(*a, **k)
    )
    assert np.allclose(losses(), expected, rtol=1e-4)
    assert len(calls) == 4
    assert expected[-1] < expected[0]


def test_what_is_not_computed_is_refused():
    q = tensor(1, 2, 8, 16)
    with pytest.raises(KernelError, match="attn_mask is given"):
        kernels.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(8, 8))
    with pytest.raises(KernelError, match="dropout_p is given"):
        kernels.scaled_dot_product_attention(q, q, q, dropout_p=0.1)
    with pytest.raises(KernelError, match=r"query has 2 heads and key 1. Pass enable_gqa=True"):
        kernels.scaled_dot_product_attention(q, q[:, :1], q[:, :1])
