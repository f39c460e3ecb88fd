package cs336.profile;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.torch.Device;
import cs336.torch.ProfilerRange;
import cs336.torch.RangeListener;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;

/**
 * Measures profiling overhead: the time of a training step without listeners, with a range listener that does nothing,
 * and with the profiler, with and without operators. Times are medians of interleaved steps in milliseconds. Arguments
 * are a device, a model size, a context length and a precision, as in {@code cuda small 128 fp32}.
 */
final class ProfilerCost {
    private static final int WARM_UP = 40;
    private static final int ROUNDS = 8;
    private static final int STEPS = 5;

    private ProfilerCost() {}

    public static void main(String[] args) {
        Device device = Device.parse(args.length > 0 ? args[0] : "best");
        ModelSize size = ModelSize.parse(args.length > 1 ? args[1] : "small");
        int context = args.length > 2 ? Integer.parseInt(args[2]) : 128;
        Precision precision = Precision.parse(args.length > 3 ? args[3] : "fp32");
        List<Double> plain = new ArrayList<>();
        List<Double> listened = new ArrayList<>();
        List<Double> profiled = new ArrayList<>();
        List<Double> withoutOperators = new ArrayList<>();
        List<Double> busy = new ArrayList<>();
        List<Double> startAndStop = new ArrayList<>();
        var silent = new RangeListener() {
            @Override
            public void entered(String name) {}

            @Override
            public void left(String name) {}
        };
        long events = 0;
        long ranges = 0;
        Torch.seed(0);
        try (var model = new TransformerLM(size.config(ModelEdition.SPRING_2025, context), device);
                var step = Benchmark.of(model).batch(4).precision(precision).step(Pass.STEP)) {
            for (int i = 0; i < WARM_UP; i++) {
                step.run();
            }
            for (int round = 0; round < ROUNDS; round++) {
                time(device, step, plain);
                ProfilerRange.addListener(silent);
                time(device, step, listened);
                ProfilerRange.removeListener(silent);
                long start = System.nanoTime();
                Profile profile;
                try (var profiler = Profiler.start()) {
                    time(device, step, profiled);
                    profile = profiler.stop();
                }
                double all = (System.nanoTime() - start) / 1e6;
                double steps = profiled.subList(profiled.size() - STEPS, profiled.size()).stream()
                        .mapToDouble(Double::doubleValue)
                        .sum();
                startAndStop.add(all - steps);
                busy.add(profile.kernels().busy() / 1e6 / STEPS);
                events = profile.trace().host().size() / STEPS;
                ranges = profile.trace().ranges().size() / STEPS;
                try (var profiler = Profiler.start(ProfilerOptions.standard().withoutOperators())) {
                    time(device, step, withoutOperators);
                }
            }
        }
        System.out.printf(
                "%s, %s, context %d, %s, TF32 off: a training step of %d events on CPU threads, %d of them ranges%n",
                device.productName(), size, context, precision, events, ranges);
        System.out.printf(
                "plain %.3f ms, with range listener %.3f ms, profiled %.3f ms, without operators %.3f ms; GPU busy time %.3f ms per step; start, stop and reading %.0f ms%n",
                median(plain),
                median(listened),
                median(profiled),
                median(withoutOperators),
                median(busy),
                median(startAndStop));
    }

    private static void time(Device device, Benchmark.Step step, List<Double> times) {
        for (int i = 0; i < STEPS; i++) {
            device.synchronize();
            long start = System.nanoTime();
            step.run();
            device.synchronize();
            times.add((System.nanoTime() - start) / 1e6);
        }
    }

    private static double median(List<Double> values) {
        List<Double> sorted = values.stream().sorted().toList();
        int middle = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted.get(middle) : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
    }
}
