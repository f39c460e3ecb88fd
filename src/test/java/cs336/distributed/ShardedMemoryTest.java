package cs336.distributed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Form;
import cs336.basics.ModelSize;
import cs336.profile.ModelMemory;
import cs336.torch.DType;
import cs336.torch.Device;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShardedMemoryTest {
    @ParameterizedTest
    @CsvSource({"LARGE, 2", "XL, 2", "XL, 4"})
    void momentsAreThoseThatBytesPerParameterSay(ModelSize size, int ranks) {
        var model = new ModelMemory(size.config(Form.SPRING_2025, 128), 2, DType.FLOAT32, Device.Kind.CUDA);
        double p = size.config().parameterCount();
        for (boolean sharded : new boolean[] {false, true}) {
            var memory = new ShardedMemory(model, ranks, sharded, 25_000_000);
            double[] perParameter = {8, 8, 8 + (sharded ? 8.0 / ranks : 8)};
            for (int i = 0; i < 3; i++) {
                double other = memory.moments().get(i).bytes() - perParameter[i] * p;
                assertTrue(
                        other >= 2 * (32 << 20) && other < 0.01 * p * 8,
                        memory.moments().get(i) + ": " + other);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"LARGE", "XL"})
    void onlyTheMomentsOfTheOptimizerDependOnSharding(ModelSize size) {
        var model = new ModelMemory(size.config(Form.SPRING_2025, 128), 2, DType.FLOAT32, Device.Kind.CUDA);
        var whole = new ShardedMemory(model, 2, false, 25_000_000);
        var shards = new ShardedMemory(model, 2, true, 25_000_000);
        for (int i = 0; i < 2; i++) {
            assertEquals(whole.moments().get(i), shards.moments().get(i));
            assertEquals(whole.peaks().get(i), shards.peaks().get(i));
        }
        long saved = whole.moments().get(2).bytes() - shards.moments().get(2).bytes();
        assertEquals(4 * size.config().parameterCount(), saved);
        assertTrue(whole.peaks().get(1).bytes() > whole.moments().get(1).bytes());
    }
}
