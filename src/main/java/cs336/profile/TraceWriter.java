package cs336.profile;

import com.google.gson.stream.JsonWriter;
import cs336.bench.WholeFile;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.GZIPOutputStream;

/** Writer of Chrome's trace format with Kineto's names, so that every viewer of Kineto traces opens the files. */
final class TraceWriter {
    private static final int NANOS_DIGITS = 3;

    private final JsonWriter json;
    private int flows;

    private TraceWriter(Writer writer) {
        json = new JsonWriter(writer);
    }

    static void write(Trace trace, Path file) throws IOException {
        boolean isPacked = file.toString().endsWith(".gz");
        WholeFile.write(file, out -> {
            try (OutputStream bytes = new BufferedOutputStream(out);
                    OutputStream packed = isPacked ? new GZIPOutputStream(bytes) : bytes;
                    Writer text = new OutputStreamWriter(packed, StandardCharsets.UTF_8)) {
                var writer = new TraceWriter(text);
                writer.write(trace);
                writer.json.flush();
            }
        });
    }

    private void write(Trace trace) throws IOException {
        json.beginObject();
        json.name("schemaVersion").value(1);
        json.name("displayTimeUnit").value("ms");
        json.name("baseTimeNanoseconds").value(trace.baseTime());
        json.name("traceEvents").beginArray();
        for (var named : new TreeMap<>(trace.threadNames()).entrySet()) {
            begin("M", null, "thread_name", named.getKey());
            json.name("args").beginObject().name("name").value(named.getValue()).endObject();
            json.endObject();
        }
        for (int device : trace.device().stream()
                .mapToInt(event -> event.stream().device())
                .distinct()
                .toArray()) {
            begin("M", null, "process_name", row(new DeviceStream(device, 0)));
            json.name("args").beginObject().name("name").value("GPU " + device).endObject();
            json.endObject();
        }
        for (HostEvent event : trace.host()) {
            write(event);
        }
        for (DeviceEvent event : trace.device()) {
            write(event);
        }
        for (MemoryEvent event : trace.memory()) {
            write(event);
        }
        json.endArray();
        json.endObject();
    }

    private void write(HostEvent event) throws IOException {
        begin("X", category(event), event.name(), event.thread());
        time("ts", event.start());
        time("dur", event.duration());
        HostEvent.HostArgs args = event.args();
        arguments(Map.of(
                "External id", args.external(),
                "Sequence number", args.sequence(),
                "Fwd thread id", args.forwardThread(),
                "correlation", args.correlation()));
        if (!args.shapes().isEmpty()) {
            json.name("Input Dims").jsonValue(args.shapes());
        }
        json.endObject();
        json.endObject();
        if (event.forward() != null) {
            flows++;
            flow("s", "fwdbwd", event.forward().thread(), event.forward().start());
            flow("f", "fwdbwd", event.thread(), event.start());
        }
    }

    private static String category(HostEvent event) {
        return switch (event.kind()) {
            case RANGE, COLLECTIVE -> "user_annotation";
            case PYTHON -> "python_function";
            case OP -> "cpu_op";
            case CALL -> event.name().startsWith("cuda") ? "cuda_runtime" : "cuda_driver";
        };
    }

    private void write(DeviceEvent event) throws IOException {
        HostThread row = row(event.stream());
        String category = switch (event.kind()) {
            case KERNEL -> "kernel";
            case MEMCPY -> "gpu_memcpy";
            case MEMSET -> "gpu_memset";
            case RANGE -> "gpu_user_annotation";
        };
        begin("X", category, event.name(), row);
        time("ts", event.start());
        time("dur", event.duration());
        DeviceEvent.DeviceArgs args = event.args();
        arguments(Map.of(
                "External id", args.external(),
                "device", (long) event.stream().device(),
                "stream", event.stream().stream(),
                "correlation", args.correlation(),
                "bytes", args.bytes()));
        json.endObject();
        json.endObject();
        if (event.launch() != null) {
            flows++;
            flow("s", "ac2g", event.launch().thread(), event.launch().start());
            flow("f", "ac2g", row, event.start());
        }
    }

    private void write(MemoryEvent event) throws IOException {
        begin("i", "cpu_instant_event", "[memory]", event.thread());
        json.name("s").value("t");
        time("ts", event.time());
        json.name("args").beginObject();
        json.name("Total Allocated").value(event.total());
        json.name("Bytes").value(event.bytes());
        json.name("Addr").value(event.address());
        json.name("Device Id").value(event.isOnGpu() ? event.device() : -1);
        json.name("Device Type").value(event.isOnGpu() ? 1 : 0);
        json.endObject();
        json.endObject();
    }

    /** Returns the process and thread ids of a stream: Kineto shows a GPU as a process and its streams as threads. */
    private static HostThread row(DeviceStream stream) {
        return new HostThread(Integer.toString(stream.device()), Long.toString(stream.stream()));
    }

    private void begin(String phase, String category, String name, HostThread row) throws IOException {
        json.beginObject();
        json.name("ph").value(phase);
        if (category != null) {
            json.name("cat").value(category);
        }
        json.name("name").value(name);
        number("pid", row.process());
        number("tid", row.thread());
    }

    private void flow(String phase, String category, HostThread row, long time) throws IOException {
        begin(phase, category, category, row);
        json.name("id").value(flows);
        time("ts", time);
        if (phase.equals("f")) {
            json.name("bp").value("e"); // ends at the enclosing event, not at the next one
        }
        json.endObject();
    }

    /** Opens the arguments object and writes those that are not NONE. */
    private void arguments(Map<String, Long> numbers) throws IOException {
        json.name("args").beginObject();
        for (var number : new TreeMap<>(numbers).entrySet()) {
            if (number.getValue() != HostEvent.NONE) {
                json.name(number.getKey()).value(number.getValue());
            }
        }
    }

    /** Writes an id as a number if it is one; viewers show text ids in separate rows. */
    private void number(String name, String value) throws IOException {
        boolean isNumber = value.matches("0|-?[1-9]\\d{0,17}");
        if (isNumber) {
            json.name(name).value(Long.parseLong(value));
        } else {
            json.name(name).value(value);
        }
    }

    private void time(String name, long nanos) throws IOException {
        json.name(name).jsonValue(BigDecimal.valueOf(nanos, NANOS_DIGITS).toPlainString());
    }
}
