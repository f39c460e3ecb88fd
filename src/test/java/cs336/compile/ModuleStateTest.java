package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Dropout;
import cs336.basics.Linear;
import cs336.basics.NnModule;
import cs336.bench.Precision;
import cs336.checkpointing.ActivationCheckpoint;
import cs336.compile.trace.TensorFunction;
import cs336.compile.trace.UnrecordableException;
import cs336.distributed.training.DistributedDataParallel;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BinaryOperator;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Compiled modules whose layers have a training mode, buffers and replaced children. */
class ModuleStateTest {
    private static final Device CPU = Device.cpu();

    /** Batch normalization with running statistics. */
    private static final class BatchNorm extends NnModule {
        private final Tensor mean = buffer("running_mean", torch.zeros(6));
        private final Tensor variance = buffer("running_var", torch.ones(6));
        private final Tensor batches = buffer("num_batches_tracked", Tensors.of(new long[] {0}));

        @Override
        protected Tensor compute(Tensor x) {
            if (isTraining()) {
                try (var noGrad = NoGrad.open()) {
                    batches.add_(new Scalar(1));
                }
            }
            return torch.batch_norm(
                    x,
                    new TensorOptional(),
                    new TensorOptional(),
                    new TensorOptional(mean),
                    new TensorOptional(variance),
                    isTraining(),
                    0.1,
                    1e-5,
                    false);
        }
    }

    private static final class Classifier extends NnModule {
        private final Linear first = child("first", new Linear(4, 6, true, CPU, DType.FLOAT32));
        private final BatchNorm norm = child("norm", new BatchNorm());
        private final Dropout dropout = child("dropout", new Dropout(0.3));
        private NnModule last = child("last", new Linear(6, 3, true, CPU, DType.FLOAT32));

        @Override
        protected Tensor compute(Tensor x) {
            return last.forward(dropout.forward(norm.forward(first.forward(x)).relu()));
        }

        void replaceLast(NnModule module) {
            last = replaceChild("last", module);
        }
    }

    private static final class Doubled extends NnModule {
        private final NnModule base;

        Doubled(NnModule base) {
            this.base = child("base", base);
        }

        @Override
        protected Tensor compute(Tensor x) {
            return base.forward(x).mul(new Scalar(2));
        }
    }

    /**
     * Trains in both modes.
     *
     * @param isFused whether the step is fused; null for a plain loop
     * @return the losses, then the state
     */
    private static double[] train(Boolean isFused) {
        Torch.seed(8);
        List<Double> results = new ArrayList<>();
        try (var scope = MemoryScope.open();
                var module = new Classifier();
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)) {
            if (Boolean.TRUE.equals(isFused)) {
                step.fuse();
            }
            for (boolean training : new boolean[] {true, true, true, false, false, true, true}) {
                module.train(training);
                Tensor inputs = torch.randn(8, 4);
                Tensor targets = torch.randn(8, 3);
                results.add(
                        isFused != null
                                ? step.run(inputs, targets).item_double()
                                : CompiledStepTest.plainStep(module, optimizer, inputs, targets));
            }
            assertEquals(5, Tensors.toLongs(module.norm.batches)[0]);
            for (Tensor tensor : module.stateDict().values()) {
                for (double value : Tensors.toDoubles(tensor)) {
                    results.add(value);
                }
            }
        }
        return results.stream().mapToDouble(Double::doubleValue).toArray();
    }

    @Test
    void stepsInBothModesEqualThoseOfThePlainLoop() {
        assertArrayEquals(train(null), train(false));
        assertArrayEquals(train(null), train(true));
    }

    /** Trains a weight with checkpointed dropout, and returns its values. */
    private static double[] trainCheckpointed(boolean isFused, boolean isCheckpointed) {
        Torch.seed(9);
        try (var scope = MemoryScope.open();
                var module = new CheckpointedDropout(isCheckpointed);
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)) {
            if (isFused) {
                step.fuse();
            }
            for (int i = 0; i < 4; i++) {
                step.run(torch.randn(8, 4), torch.randn(8, 4));
            }
            return Tensors.toDoubles(module.parameters().get(0));
        }
    }

    private static final class CheckpointedDropout extends NnModule {
        private final Linear linear = child("linear", new Linear(4, 4, CPU, DType.FLOAT32));
        private final Dropout dropout = child("dropout", new Dropout(0.5));
        private final boolean isCheckpointed;

        CheckpointedDropout(boolean isCheckpointed) {
            this.isCheckpointed = isCheckpointed;
        }

        @Override
        protected Tensor compute(Tensor x) {
            return isCheckpointed ? ActivationCheckpoint.apply(this::branch, x) : branch(x);
        }

        private Tensor branch(Tensor x) {
            return dropout.forward(linear.forward(x).tanh()).square();
        }
    }

    @Test
    void aRecordedRecomputationHasTheRandomNumbersOfTheForwardPass() {
        double[] expected = trainCheckpointed(false, false);
        assertArrayEquals(expected, trainCheckpointed(false, true));
        assertArrayEquals(expected, trainCheckpointed(true, false));
        assertArrayEquals(expected, trainCheckpointed(true, true));
    }

    @Test
    void aCompiledLayerIsRecordedAgainInAnotherModeAndWithAnotherChild() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open();
                var module = new Classifier();
                var compiled = Compiled.of(module)) {
            Tensor x = torch.randn(8, 4);
            Tensor training = compiled.apply(x)[0];
            module.eval();
            Tensor plain = module.forward(x);
            assertArrayEquals(Tensors.toDoubles(plain), Tensors.toDoubles(compiled.apply(x)[0]));
            assertTrue(torch.ne(training, plain).any().item_bool());
            module.replaceLast(new Doubled(module.last));
            assertArrayEquals(Tensors.toDoubles(plain.mul(new Scalar(2))), Tensors.toDoubles(compiled.apply(x)[0]));
            assertEquals(3, compiled.recordings());
        }
    }

    @Test
    void gradientsFlowToParametersThatACompiledLayerGetsLater() {
        try (var scope = MemoryScope.open();
                var module = new Classifier();
                var compiled = Compiled.of(module)) {
            module.eval();
            module.parameters().forEach(parameter -> parameter.set_requires_grad(false));
            Tensor x = torch.randn(8, 4);
            compiled.apply(x);
            var adapter = new Linear(4, 6, CPU, DType.FLOAT32);
            module.first.adapt(adapter);
            Tensor weight = adapter.parameters().get(0);
            Tensor expected = Backward.of(module.forward(x).sum()).gradients(weight)[0];
            Tensor gradient = Backward.of(compiled.apply(x)[0].sum()).gradients(weight)[0];
            assertArrayEquals(Tensors.toDoubles(expected), Tensors.toDoubles(gradient), 1e-5);
            module.last.close();
            var e = assertThrows(IllegalStateException.class, () -> compiled.apply(x));
            assertEquals("last is closed", e.getMessage());
            module.replaceLast(new Linear(6, 3, CPU, DType.FLOAT32));
            assertArrayEquals(Tensors.toDoubles(module.forward(x)), Tensors.toDoubles(compiled.apply(x)[0]), 1e-6);
            assertEquals(3, compiled.recordings());
        }
    }

    /** A layer with two inputs. */
    private static final class Mixed extends NnModule {
        private final Linear linear = child("linear", new Linear(4, 4, true, CPU, DType.FLOAT32));
        private final Dropout dropout = child("dropout", new Dropout(0.5));

        Tensor forward(Tensor x, Tensor memory) {
            return run(() -> dropout.forward(linear.forward(x).mul(memory)));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return forward(x, x);
        }
    }

    @Test
    void aCompiledLayerMayHaveSeveralInputs() {
        try (var scope = MemoryScope.open();
                var module = new Mixed();
                var compiled = Compiled.of(in -> new Tensor[] {module.forward(in[0], in[1])}, module)) {
            Tensor x = torch.randn(8, 4);
            Tensor memory = torch.randn(8, 4);
            assertTrue(
                    torch.eq(compiled.apply(x, memory)[0], new Scalar(0)).any().item_bool());
            module.eval();
            Tensor plain = module.forward(x, memory);
            Tensor output = compiled.apply(x, memory)[0];
            assertArrayEquals(Tensors.toDoubles(plain), Tensors.toDoubles(output));
            Tensor[] parameters = module.parameters().toArray(new Tensor[0]);
            Tensor[] expected = Backward.of(plain.square().sum()).gradients(parameters);
            Tensor[] gradients = Backward.of(output.square().sum()).gradients(parameters);
            for (int i = 0; i < parameters.length; i++) {
                assertArrayEquals(Tensors.toDoubles(expected[i]), Tensors.toDoubles(gradients[i]), 1e-5);
            }
            assertEquals(2, compiled.recordings());
        }
    }

    @Test
    void aFunctionWithDropoutIsCompiledWithGradients() {
        try (var scope = MemoryScope.open();
                var dropout = new Dropout(0.5);
                var compiled = Compiled.of(dropout)) {
            Tensor x = torch.ones(1000).set_requires_grad(true);
            Tensor y = compiled.apply(x)[0];
            Tensor other = compiled.apply(x)[0];
            assertEquals(1, compiled.recordings(), compiled.explain());
            assertTrue(torch.ne(y, other).any().item_bool(), "the same elements are zero");
            Tensor gradient = Backward.of(other.sum()).gradients(x)[0];
            assertArrayEquals(Tensors.toDoubles(other), Tensors.toDoubles(gradient));
            assertEquals(1, other.mean().item_double(), 0.2);
        }
    }

    @Test
    void aFunctionThatCatchesAnExceptionOfAnOperatorIsCalledPlain() {
        TensorFunction catching = in -> {
            try {
                in[0].matmul(in[0]);
            } catch (RuntimeException e) {
                return new Tensor[] {in[0].add(new Scalar(1))};
            }
            return in;
        };
        try (var scope = MemoryScope.open();
                var compiled = Compiled.of(catching);
                var plain = Compiled.of(catching).orPlain()) {
            Tensor x = torch.zeros(2, 3);
            var e = assertThrows(UnrecordableException.class, () -> compiled.apply(x));
            assertTrue(
                    e.getMessage().contains("it catches an exception of an operator: mat1 and mat2"), e.getMessage());
            assertEquals(6, plain.apply(x)[0].sum().item_float());
            assertEquals(0, plain.recordings());
            assertTrue(plain.explain().contains("it catches an exception of an operator"), plain.explain());
        }
    }

    @Test
    void mistakesWithAStepAreNamed() {
        try (var scope = MemoryScope.open();
                var module = new Classifier();
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var none = new AdamW(Map.of(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)
                        .fuse()) {
            BinaryOperator<Tensor> loss = CompiledStepTest::squaredError;
            var ofOptimizer =
                    assertThrows(NullPointerException.class, () -> CompiledStep.of(module, loss, null, Precision.FP32));
            assertEquals("optimizer must not be null", ofOptimizer.getMessage());
            var ofPrecision =
                    assertThrows(NullPointerException.class, () -> CompiledStep.of(module, loss, optimizer, null));
            assertEquals("precision must not be null", ofPrecision.getMessage());
            DistributedDataParallel noDdp = null;
            for (Executable use : List.<Executable>of(
                    () -> CompiledStep.of(noDdp, optimizer, Precision.FP32),
                    () -> CompiledStep.of(noDdp, loss, optimizer, Precision.FP32))) {
                assertEquals(
                        "ddp must not be null",
                        assertThrows(NullPointerException.class, use).getMessage());
            }
            var ofParameters = assertThrows(
                    IllegalArgumentException.class, () -> CompiledStep.of(module, loss, none, Precision.FP32));
            assertEquals("optimizer must have at least one parameter", ofParameters.getMessage());
            Tensor inputs = torch.randn(8, 4);
            Tensor targets = torch.randn(8, 3);
            step.run(inputs, targets);
            module.dropout.close();
            var ofLayer = assertThrows(IllegalStateException.class, () -> step.run(inputs, targets));
            assertEquals("dropout is closed", ofLayer.getMessage());
            module.close();
            var ofModule = assertThrows(IllegalStateException.class, () -> step.run(inputs, targets));
            assertEquals("Classifier is closed", ofModule.getMessage());
        }
    }

    @Test
    void theExplanationNamesTheOperatorThatPreventsCompilation() {
        try (var scope = MemoryScope.open();
                var compiled = Compiled.of(in -> new Tensor[] {torch.dropout(in[0], 0.5, true)});
                var module = new BatchNorm();
                var writing = Compiled.of(module);
                var reading = Compiled.of(
                                in -> new Tensor[] {in[0].mul(in[0].sum().item())})
                        .orPlain()) {
            Tensor x = torch.randn(8, 6).set_requires_grad(true);
            compiled.apply(x);
            assertEquals(0, compiled.recordings());
            String text = compiled.explain();
            assertTrue(text.startsWith("called without being compiled: it writes in place to an intermediate"), text);
            assertTrue(text.contains("bernoulli_"), text);
            writing.apply(x);
            text = writing.explain();
            assertTrue(text.startsWith("called without being compiled: it writes to a tensor outside of it"), text);
            assertTrue(text.contains("add_"), text);
            reading.apply(x);
            assertTrue(reading.explain().contains("_local_scalar_dense"), reading.explain());
        }
    }
}
