package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import java.util.List;
import java.util.function.Function;
import java.util.function.ToIntFunction;

/**
 * The operations of SwiGLU, silu(X · W₁ᵀ) ∘ (X · W₂ᵀ), in a lowered program, whose intermediate results nothing else
 * reads. W₂ is the model's w3.
 *
 * @param product the elementwise multiplication, which is the last operation
 * @param gate the matrix multiplication X · W₁ᵀ
 * @param up the matrix multiplication X · W₂ᵀ
 * @param silu the pointwise operations between the gate and the product
 */
record SwiGluOperations(Operation product, Operation gate, Operation up, List<Operation> silu) {
    /**
     * Finds the operation of which an argument reads all of the result, if the program reads it this number of times.
     */
    private record Matcher(Function<ProgramValue, Operation> producers, ToIntFunction<ProgramValue> reads) {
        Operation producer(Argument argument, int times) {
            return argument instanceof View view && view.readsAll() && reads.applyAsInt(view.value()) == times
                    ? producers.apply(view.value())
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

    /**
     * Returns the operations of SwiGLU that end with this one, or null if it does not end SwiGLU.
     *
     * @param producers the operation that computes a value, or null
     * @param reads the number of times that a value is read or returned
     */
    static SwiGluOperations endingWith(
            Operation product, Function<ProgramValue, Operation> producers, ToIntFunction<ProgramValue> reads) {
        if (product.operator() != PointwiseOperator.MUL) {
            return null;
        }
        var matcher = new Matcher(producers, reads);
        SwiGluOperations first = of(matcher, product, 0);
        return first != null ? first : of(matcher, product, 1);
    }

    /** Matches g / (1 + exp(−g)) as this argument of the product. */
    private static SwiGluOperations of(Matcher matcher, Operation product, int argument) {
        Operation quotient = matcher.pointwise(PointwiseOperator.DIV, product, argument);
        Operation onePlus = matcher.pointwise(PointwiseOperator.ADD, quotient, 1);
        Operation exp = matcher.pointwise(PointwiseOperator.EXP, onePlus, 0);
        Operation minus = matcher.pointwise(PointwiseOperator.NEG, exp, 0);
        if (minus == null
                || !(onePlus.arguments().get(1) instanceof Constant one && one.number() == 1)
                || !minus.arguments().get(0).equals(quotient.arguments().get(0))) {
            return null;
        }
        Operation gate = matcher.gemm(quotient.arguments().get(0), 2);
        Operation up = matcher.gemm(product.arguments().get(1 - argument), 1);
        boolean haveCommonInput = gate != null && up != null && gate.view(0).equals(up.view(0));
        return haveCommonInput ? new SwiGluOperations(product, gate, up, List.of(minus, exp, onePlus, quotient)) : null;
    }
}
