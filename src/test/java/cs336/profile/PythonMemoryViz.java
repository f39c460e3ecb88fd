package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.Gson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Assumptions;

/** The contents of a snapshot according to Python's {@code torch.cuda._memory_viz}. Skips the test without PyTorch. */
public record PythonMemoryViz(long allocations, long segments, long peakBytes, String largest) {
    private static final int NO_TORCH = 9;
    private static final String SCRIPT = """
            import json, pickle, sys
            try:
                from torch.cuda._memory_viz import segsum, trace, trace_plot
            except ImportError:
                sys.exit(9)
            snapshot = pickle.load(open(sys.argv[1], 'rb'))
            assert len(trace_plot(snapshot)) > 1000
            lines = trace(snapshot).splitlines()
            segments = [line for line in segsum(snapshot).splitlines() if line.startswith('segments: ')]
            entries = [entry for device in snapshot['device_traces'] for entry in device]
            now = peak = 0
            for entry in entries:
                now += entry['size'] * {'alloc': 1, 'free_completed': -1}.get(entry['action'], 0)
                peak = max(peak, now)
            largest = max((e for e in entries if e['action'] == 'alloc' and e['frames']), key=lambda e: e['size'])
            print(json.dumps({
                'allocations': sum(' = ' in line and line.endswith(']') for line in lines),
                'segments': int(segments[0].split()[1]),
                'peakBytes': peak,
                'largest': largest['frames'][0]['filename'],
            }))
            """;

    public static PythonMemoryViz of(Path snapshot) throws IOException {
        Process python;
        try {
            python = new ProcessBuilder("python3", "-c", SCRIPT, snapshot.toString())
                    .redirectErrorStream(true)
                    .start();
        } catch (IOException e) {
            return Assumptions.abort("no python3: " + e.getMessage());
        }
        var said = new String(python.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        int exitCode = python.onExit().join().exitValue();
        Assumptions.assumeTrue(exitCode != NO_TORCH, "python3 has no torch.cuda._memory_viz that reads snapshots");
        assertEquals(0, exitCode, said);
        return new Gson().fromJson(said.lines().reduce((first, last) -> last).orElseThrow(), PythonMemoryViz.class);
    }
}
