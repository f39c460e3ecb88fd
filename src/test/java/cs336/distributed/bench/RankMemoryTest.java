package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.LabCommand;
import cs336.torch.Device;
import cs336.torch.MemoryStats;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RankMemoryTest extends CommandTest {
    private static final Pattern MESSAGE = Pattern.compile(
            "too little memory: --mode (\\S+) of the model d64-\\S+ on 4 processes needs ([\\d,.]+) GB for parameters,"
                    + " gradients and optimizer state alone, and cpu has [\\d,.]+ GB available");

    /** Except for fsdp, one process would have enough memory. */
    @ParameterizedTest
    @CsvSource({
        "ddp, none, 4",
        "ddp, bucketed, 4",
        "shard, unsharded, 4",
        "shard, broadcast, 2.5",
        "shard, zero-1, 2.5",
        "fsdp, zero-1, 2.5",
        "fsdp, ddp, 4",
        "fsdp, fsdp, 1",
        "fsdp, hsdp, 2"
    })
    void aModelThatDoesNotFitIsReportedBeforeAnyRankStarts(String name, String mode, double copies) {
        double available = MemoryStats.available(Device.cpu());
        double fraction = copies == 1 ? 1.5 : 0.8; // of the memory, for one copy
        long parameters = (long) (fraction * available / 16);
        long perUnit = 3 * 64; // of a feed-forward layer's width
        String options =
                "--d-model 64 --layers 1 --heads 2 --vocab 256 --batch 1 --context 8 --device cpu --processes 4"
                        + " --d-ff " + parameters / perUnit + " --mode " + mode
                        + (mode.equals("hsdp") ? " --emulate-nodes 2" : "");
        for (String more : new String[] {" --machine here", " --checkpoint " + folder.resolve("run")}) {
            if (mode.equals("none") && more.contains("--checkpoint")) {
                continue;
            }
            err.getBuffer().setLength(0);
            LabCommand command = switch (name) {
                case "ddp" -> new DdpCommand();
                case "shard" -> new ShardCommand();
                default -> new FsdpCommand();
            };
            assertEquals(
                    2,
                    more.contains("here") ? run(command, options + more) : runWithoutOutput(command, options + more));
            Matcher message = MESSAGE.matcher(err.toString());
            assertTrue(message.matches(), err::toString);
            assertEquals(mode, message.group(1));
            double needed = 1e9 * Double.parseDouble(message.group(2).replace(",", ""));
            assertEquals(copies, needed / (fraction * available), 0.01);
        }
    }
}
