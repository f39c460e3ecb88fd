package cs336.distributed;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** NVIDIA's program that tells about cards, which comes with the driver. */
final class NvidiaSmi {
    private static final String PROGRAM = "nvidia-smi";

    private NvidiaSmi() {}

    /**
     * What {@code nvidia-smi} with these arguments printed, complaints included.
     *
     * @throws IOException if it cannot be run
     */
    static String said(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(PROGRAM));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        try (var output = process.getInputStream()) {
            return new String(output.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
