package cs336.profile;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Builder of hand-written traces. Times are in nanoseconds. */
final class TraceText {
    static final String MAIN = "\"pid\": 1, \"tid\": 10";
    static final String ENGINE = "\"pid\": 1, \"tid\": 20";

    private final List<String> events = new ArrayList<>();

    TraceText range(String thread, String name, long start, long end) {
        return event("user_annotation", thread, name, start, end, "");
    }

    TraceText op(String thread, String name, long start, long end) {
        return event("cpu_op", thread, name, start, end, "");
    }

    /** Adds an operator or backward node with its sequence number and the forward thread of a node, otherwise 0. */
    TraceText op(String thread, String name, long start, long end, long sequence, long forwardThread) {
        String numbers = "\"Sequence number\": %d, \"Fwd thread id\": %d".formatted(sequence, forwardThread);
        return event("cpu_op", thread, name, start, end, numbers);
    }

    TraceText external(String thread, String name, long start, long end, long external) {
        return event("cpu_op", thread, name, start, end, "\"External id\": " + external);
    }

    TraceText launch(String thread, long start, long end, long correlation) {
        return event("cuda_runtime", thread, "cudaLaunchKernel", start, end, "\"correlation\": " + correlation);
    }

    TraceText kernel(int stream, String name, long start, long end, long correlation) {
        return device("kernel", stream, name, start, end, "\"correlation\": " + correlation);
    }

    TraceText device(String category, int stream, String name, long start, long end) {
        return device(category, stream, name, start, end, "\"correlation\": -1");
    }

    TraceText device(String category, int stream, String name, long start, long end, String arguments) {
        String place = "\"pid\": 0, \"tid\": " + stream;
        return event(category, place, name, start, end, "\"device\": 0, \"stream\": " + stream + ", " + arguments);
    }

    TraceText event(String category, String place, String name, long start, long end, String arguments) {
        return raw("{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", %s, \"ts\": %s, \"dur\": %s, \"args\": {%s}}"
                .formatted(category, name, place, micros(start), micros(end - start), arguments));
    }

    /** Adds a flow event from an operator to the backward node that it created. */
    TraceText flow(int id, String from, long start, String to, long end) {
        String format = "{\"ph\": \"%s\", \"id\": %d, %s, \"ts\": %s, \"cat\": \"fwdbwd\", \"name\": \"fwdbwd\"}";
        return raw(format.formatted("s", id, from, micros(start))).raw(format.formatted("f", id, to, micros(end)));
    }

    TraceText raw(String event) {
        events.add(event);
        return this;
    }

    private static String micros(long nanos) {
        return nanos / 1000 + "." + "%03d".formatted(nanos % 1000);
    }

    @Override
    public String toString() {
        return "{\"schemaVersion\": 1, \"traceEvents\": [" + String.join(",\n", events) + "]}";
    }

    Trace read() {
        try {
            Path file = Files.createTempFile("trace", ".json");
            try {
                Files.writeString(file, toString());
                return Trace.read(file);
            } finally {
                Files.delete(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the sum of the self times on all threads, in nanoseconds. */
    static long hostTime(Trace trace) {
        return trace.host().stream().mapToLong(HostEvent::self).sum();
    }

    /** Returns the sum of the durations of kernels, copies and memory sets, in nanoseconds. */
    static long deviceTime(Trace trace) {
        return trace.work().stream().mapToLong(DeviceEvent::duration).sum();
    }
}
