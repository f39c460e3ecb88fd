package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.kernels.gemm.Epilogue;
import java.util.List;
import java.util.stream.Stream;

/**
 * The operations of an {@link Epilogue} in a lowered program: gelu(X · Wᵀ) or SwiGLU, silu(X · W₁ᵀ) ∘ (X · W₂ᵀ), where
 * W₂ is the model's w3. Nothing else reads their intermediate results.
 *
 * @param function GELU or SwiGLU
 * @param gemms the matrix multiplications, with a common left operand
 * @param inner the pointwise operations before the last one, whose result has the dtype of the matrix multiplications
 */
record EpilogueOperations(Epilogue function, List<Operation> gemms, List<Operation> inner) {
    /**
     * Finds the operation of which an argument reads all of the result, if the program reads it this number of times.
     */
    private record Matcher(Replacements program) {
        Operation producer(Argument argument, int times) {
            return argument instanceof View view && view.readsAll() && program.timesRead(view.value()) == times
                    ? program.producer(view.value())
                    : null;
        }

        Operation pointwise(PointwiseOperator function, Operation reader, int argument) {
            Operation operation =
                    reader == null ? null : producer(reader.arguments().get(argument), 1);
            return operation != null && operation.operator() == function ? operation : null;
        }

        Operation gemm(Argument argument, int times) {
            Operation operation = producer(argument, times);
            return operation != null && GemmMerging.isGemm(operation) ? operation : null;
        }
    }

    /** Returns the operations of a program that end with this one, or null if it does not end an epilogue. */
    static EpilogueOperations endingWith(Operation last, Replacements program) {
        if (last.operator() != PointwiseOperator.MUL) {
            return null;
        }
        var matcher = new Matcher(program);
        return Stream.of(gelu(matcher, last), swiGlu(matcher, last, 0), swiGlu(matcher, last, 1))
                .filter(found -> found != null
                        && found.gemms.get(0).output().dtype() == last.output().dtype())
                .findFirst()
                .orElse(null);
    }

    /** Matches x · ((erf(x · √½) + 1) · ½). */
    private static EpilogueOperations gelu(Matcher matcher, Operation product) {
        Operation distribution = matcher.pointwise(PointwiseOperator.MUL, product, 1);
        Operation onePlus = matcher.pointwise(PointwiseOperator.ADD, distribution, 0);
        Operation erf = matcher.pointwise(PointwiseOperator.ERF, onePlus, 0);
        Operation scaled = matcher.pointwise(PointwiseOperator.MUL, erf, 0);
        if (scaled == null
                || !isNumber(scaled, (float) Math.sqrt(0.5))
                || !isNumber(onePlus, 1)
                || !isNumber(distribution, 0.5f)
                || !scaled.arguments().get(0).equals(product.arguments().get(0))) {
            return null;
        }
        Operation gemm = matcher.gemm(product.arguments().get(0), 2);
        List<Operation> inner = List.of(scaled, erf, onePlus, distribution);
        return gemm == null ? null : new EpilogueOperations(Epilogue.GELU, List.of(gemm), inner);
    }

    private static boolean isNumber(Operation operation, float number) {
        return operation.arguments().get(1) instanceof Constant constant && (float) constant.number() == number;
    }

    /** Matches g / (1 + exp(−g)) as this argument of the product. */
    private static EpilogueOperations swiGlu(Matcher matcher, Operation product, int argument) {
        Operation quotient = matcher.pointwise(PointwiseOperator.DIV, product, argument);
        Operation onePlus = matcher.pointwise(PointwiseOperator.ADD, quotient, 1);
        Operation exp = matcher.pointwise(PointwiseOperator.EXP, onePlus, 0);
        Operation minus = matcher.pointwise(PointwiseOperator.NEG, exp, 0);
        if (minus == null
                || !isNumber(onePlus, 1)
                || !minus.arguments().get(0).equals(quotient.arguments().get(0))) {
            return null;
        }
        Operation gate = matcher.gemm(quotient.arguments().get(0), 2);
        Operation up = matcher.gemm(product.arguments().get(1 - argument), 1);
        if (gate == null || up == null || !gate.view(0).equals(up.view(0))) {
            return null;
        }
        List<Operation> inner = List.of(minus, exp, onePlus, quotient);
        return new EpilogueOperations(Epilogue.SWIGLU, List.of(gate, up), inner);
    }
}
