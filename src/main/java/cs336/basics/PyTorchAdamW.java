package cs336.basics;

import cs336.basics.AdamWKernel.AdamWScalars;
import cs336.basics.AdamWKernel.AdamWTensors;
import cs336.basics.AdamWKernel.AdamWUpdate;
import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import java.util.Collections;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** An AdamW update with PyTorch's {@code _fused_adamw_}, which supports every device and floating-point dtype. */
final class PyTorchAdamW implements AdamWUpdate {
    private static final AtenOperator FUSED_ADAMW = AtenOperator.of("aten::_fused_adamw_", "");

    private final AdamWTensors tensors;
    private final ScalarType dtype;
    private final TensorList parameters;
    private final TensorList m;
    private final TensorList v;
    private final TensorList none = TensorList.of(List.of());
    private final Tensor step;
    private final TensorList steps;

    PyTorchAdamW(AdamWTensors tensors) {
        this.tensors = tensors;
        Tensor any = tensors.parameters().get(0);
        dtype = DType.of(any).scalarType();
        parameters = TensorList.of(tensors.parameters());
        m = TensorList.of(tensors.m());
        v = TensorList.of(tensors.v());
        // The kernel reads one step count per parameter from the device; all parameters share one tensor.
        step = MemoryScope.keep(torch.zeros(new long[0], any.options()).to(ScalarType.Float));
        steps = TensorList.of(Collections.nCopies(tensors.parameters().size(), step));
    }

    @Override
    public void step(List<Tensor> gradients, Tensor gradientFactor, AdamWScalars scalars) {
        step.fill_(new Scalar((double) scalars.step()));
        boolean amsgrad = false;
        boolean maximize = false;
        List<Tensor> scaled = gradients.stream()
                .map(gradient -> gradient.to(dtype))
                .map(gradient -> gradientFactor == null ? gradient : gradient.mul(gradientFactor))
                .toList();
        try (var g = TensorList.of(scaled)) {
            FUSED_ADAMW.call(
                    parameters,
                    g,
                    m,
                    v,
                    none,
                    steps,
                    scalars.learningRate(),
                    scalars.beta1(),
                    scalars.beta2(),
                    scalars.weightDecay(),
                    scalars.eps(),
                    amsgrad,
                    maximize,
                    null,
                    null);
        }
        // The fused operator does not, so caches of the parameters would not notice the update.
        tensors.parameters()
                .forEach(parameter -> parameter.unsafeGetTensorImpl().bump_version());
        for (int i = 0; i < tensors.copies().size(); i++) {
            if (tensors.copies().get(i) != null) {
                tensors.copies().get(i).copy_(tensors.parameters().get(i));
            }
        }
    }

    @Override
    public void close() {
        List.of(parameters, m, v, none, steps).forEach(TensorList::close);
        step.close();
    }
}
