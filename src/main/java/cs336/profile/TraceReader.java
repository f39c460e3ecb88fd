package cs336.profile;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.MalformedJsonException;
import cs336.bench.WholeFile;
import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FilterReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.GZIPInputStream;
import java.util.zip.ZipException;

/**
 * Reader of Chrome's trace format as Kineto writes it. It streams the file event by event. Sources: "Trace Event
 * Format", Google; categories and arguments: Kineto's {@code output_json.cpp}, older names as in PyTorch 1.8.
 */
final class TraceReader {
    private static final int NANOS_DIGITS = 3; // decimals of a time in microseconds
    private static final int DEVICE_TYPE_CPU = 0;

    private final JsonReader json;
    private final TraceBuilder trace = new TraceBuilder();
    private final Map<String, String> names = new HashMap<>(); // interns texts
    private final Map<HostThread, HostThread> threads = new HashMap<>();
    private final Map<Integer, Links.EventStart> flowStarts = new HashMap<>();
    private final Map<Integer, Links.EventStart> flowEnds = new HashMap<>();
    private int index;

    private TraceReader(Reader reader) {
        json = new JsonReader(reader);
    }

    static Trace read(Path file) throws IOException {
        try (Reader text = new BoundedStrings(open(file))) {
            return new TraceReader(text).read();
        } catch (MalformedJsonException | NumberFormatException | IllegalStateException e) {
            throw new IllegalArgumentException(file + " is not a trace: " + flaw(file, e), e);
        } catch (EOFException e) {
            throw new IllegalArgumentException(file + " is not a trace: it is truncated", e);
        } catch (ZipException e) {
            throw new IllegalArgumentException(
                    file + " is not a trace: it is not gzip-compressed: " + e.getMessage(), e);
        } catch (TraceFormatException e) {
            throw new IllegalArgumentException(file + " is not a trace: " + e.getMessage(), e);
        }
    }

    /** Returns why a file is not JSON. */
    private static String flaw(Path file, Exception e) throws IOException {
        try {
            boolean readableAgain = Files.isRegularFile(file); // a pipe is not
            return readableAgain && isTruncated(file) ? "it is truncated" : "it is not JSON" + position(e);
        } catch (ZipException damage) {
            return "its compressed data is damaged: " + damage.getMessage();
        }
    }

    /** Returns the position at which gson stopped; the rest of its message is about its API. */
    private static String position(Exception e) {
        Matcher position = Pattern.compile(" at line \\d+ column \\d+").matcher(String.valueOf(e.getMessage()));
        return position.find() ? position.group() : "";
    }

    /**
     * Returns whether the outermost object or array is not closed at the end of the file. Gson reports this only if the
     * file does not end inside a token.
     */
    private static boolean isTruncated(Path file) throws IOException {
        int first = ' ';
        int last = ' ';
        try (Reader text = open(file)) {
            for (int c; (c = text.read()) >= 0; ) {
                if (Character.isWhitespace(c)) {
                    continue;
                }
                if (first == ' ') {
                    first = c;
                }
                last = c;
            }
        } catch (EOFException e) {
            return true; // truncated gzip stream
        }
        return first == '{' && last != '}' || first == '[' && last != ']';
    }

    private static Reader open(Path file) throws IOException {
        WholeFile.requireFile(file);
        boolean isPipe = Files.exists(file) && !Files.isRegularFile(file);
        // The stream of Files seeks, which a pipe cannot.
        InputStream bytes =
                new BufferedInputStream(isPipe ? new FileInputStream(file.toFile()) : Files.newInputStream(file));
        try {
            InputStream text = file.toString().endsWith(".gz") ? new GZIPInputStream(bytes, 1 << 16) : bytes;
            return new InputStreamReader(text, StandardCharsets.UTF_8);
        } catch (IOException e) {
            bytes.close();
            throw e;
        }
    }

    /** A reader of JSON that rejects strings which would not fit into memory. */
    private static final class BoundedStrings extends FilterReader {
        private static final int LONGEST = 1 << 24; // characters
        private int length; // since the last quote
        private boolean escaped;

        BoundedStrings(Reader json) {
            super(json);
        }

        @Override
        public int read(char[] buffer, int offset, int count) throws IOException {
            int read = super.read(buffer, offset, count);
            for (int i = offset; i < offset + read; i++) {
                boolean ends = buffer[i] == '"' && !escaped;
                escaped = buffer[i] == '\\' && !escaped;
                length = ends ? 0 : length + 1;
                if (length > LONGEST) {
                    throw new TraceFormatException("it has a string of more than " + LONGEST + " characters");
                }
            }
            return read;
        }
    }

    private static final class TraceFormatException extends RuntimeException {
        private static final long serialVersionUID = 1;

        TraceFormatException(String message) {
            super(message);
        }
    }

    private Trace read() throws IOException {
        boolean found = false;
        if (json.peek() == JsonToken.BEGIN_ARRAY) {
            readEvents();
            found = true;
        } else if (json.peek() == JsonToken.BEGIN_OBJECT) {
            json.beginObject();
            while (json.hasNext()) {
                switch (json.nextName()) {
                    case "traceEvents" -> {
                        if (json.peek() != JsonToken.BEGIN_ARRAY) {
                            throw new TraceFormatException("traceEvents is not an array");
                        }
                        readEvents();
                        found = true;
                    }
                    case "baseTimeNanoseconds" -> trace.baseTime = json.nextLong();
                    default -> json.skipValue();
                }
            }
            json.endObject();
        }
        if (!found) {
            throw new TraceFormatException("it has no traceEvents");
        }
        json.peek(); // throws if anything follows
        flowStarts.forEach((id, from) -> {
            Links.EventStart to = flowEnds.get(id);
            if (to != null) {
                trace.flows.add(new Links.FlowEvent(from, to));
            }
        });
        return trace.build();
    }

    private void readEvents() throws IOException {
        json.beginArray();
        for (index = 0; json.hasNext(); index++) {
            if (json.peek() != JsonToken.BEGIN_OBJECT) {
                throw invalid("is not an object");
            }
            new EventReader().read();
        }
        json.endArray();
    }

    private TraceFormatException invalid(String problem) {
        return new TraceFormatException("event " + index + " " + problem);
    }

    /** Reads one event. Fields that the event lacks are null, empty or NONE. */
    private final class EventReader {
        private String phase = "";
        private String category = "";
        private String name;
        private String process = "";
        private String thread = "";
        private String time;
        private String length;
        private String id;
        private String threadName;
        private long correlation = HostEvent.NONE;
        private long external = HostEvent.NONE;
        private long sequence = HostEvent.NONE;
        private long forwardThread = HostEvent.NONE;
        private String shapes = "";
        private long device = HostEvent.NONE;
        private long stream = HostEvent.NONE;
        private long bytes = HostEvent.NONE;
        private long address;
        private long total;
        private long deviceType;

        void read() throws IOException {
            json.beginObject();
            while (json.hasNext()) {
                switch (json.nextName()) {
                    case "ph" -> phase = text();
                    case "cat" -> category = text();
                    case "name" -> name = text();
                    case "pid" -> process = text();
                    case "tid" -> thread = text();
                    case "ts" -> time = scalar();
                    case "dur" -> length = scalar();
                    case "id" -> id = scalar();
                    case "args" -> readArguments();
                    default -> json.skipValue();
                }
            }
            json.endObject();
            keep();
        }

        private void readArguments() throws IOException {
            if (json.peek() != JsonToken.BEGIN_OBJECT) {
                json.skipValue();
                return;
            }
            json.beginObject();
            while (json.hasNext()) {
                switch (json.nextName()) {
                    case "correlation" -> correlation = integer("correlation");
                    case "External id", "external id" -> external = integer("External id");
                    case "Sequence number" -> sequence = integer("Sequence number");
                    case "Fwd thread id" -> forwardThread = integer("Fwd thread id");
                    case "Input Dims", "Input dims" -> shapes = compactArray();
                    case "device", "Device Id" -> device = integer("device");
                    case "stream" -> stream = integer("stream");
                    case "bytes", "Bytes" -> bytes = integer("bytes");
                    case "Addr" -> address = integer("Addr");
                    case "Total Allocated" -> total = integer("Total Allocated");
                    case "Device Type" -> deviceType = integer("Device Type");
                    case "name" -> threadName = text();
                    default -> json.skipValue();
                }
            }
            json.endObject();
        }

        private void keep() {
            switch (phase) {
                case "X" -> keepComplete();
                case "i", "I" -> {
                    if ("[memory]".equals(name)) {
                        int index = deviceType == DEVICE_TYPE_CPU ? MemoryEvent.CPU : deviceIndex();
                        trace.memory.add(
                                new MemoryEvent(hostThread(), nanos("ts", time), index, address, bytes, total));
                    }
                }
                case "s" -> flow(flowStarts);
                case "f" -> flow(flowEnds);
                case "M" -> {
                    if ("thread_name".equals(name) && threadName != null) {
                        trace.threadNames.putIfAbsent(hostThread(), threadName);
                    }
                }
                default -> {} // counters and other events for viewers
            }
        }

        private void flow(Map<Integer, Links.EventStart> events) {
            if (!category.equals("fwdbwd") && !category.equals("forward_backward")) {
                return;
            }
            if (id == null) {
                throw invalid("of category " + category + " has no id");
            }
            events.put(parseInt(id), new Links.EventStart(hostThread(), nanos("ts", time)));
        }

        private void keepComplete() {
            switch (category) {
                case "cpu_op", "Operator" -> keepHost(orCollective(HostEventKind.OP));
                case "user_annotation" -> keepHost(orCollective(HostEventKind.RANGE));
                case "python_function" -> keepHost(HostEventKind.PYTHON);
                case "cuda_runtime", "cuda_driver", "Runtime" -> keepHost(HostEventKind.CALL);
                case "kernel", "Kernel" -> keepDevice(DeviceEventKind.KERNEL);
                case "gpu_memcpy", "Memcpy" -> keepDevice(DeviceEventKind.MEMCPY);
                case "gpu_memset", "Memset" -> keepDevice(DeviceEventKind.MEMSET);
                case "gpu_user_annotation" -> keepDevice(DeviceEventKind.RANGE);
                default -> {} // the profiler's own events, and those of other tools
            }
        }

        private HostEventKind orCollective(HostEventKind kind) {
            return name != null && HostEvent.isCollective(name) ? HostEventKind.COLLECTIVE : kind;
        }

        private void keepHost(HostEventKind kind) {
            requireName();
            trace.host.add(new HostEvent(
                    kind,
                    name,
                    hostThread(),
                    nanos("ts", time),
                    duration(),
                    new HostEvent.HostArgs(correlation, external, sequence, forwardThread, shapes)));
        }

        private void keepDevice(DeviceEventKind kind) {
            requireName();
            int index = device == HostEvent.NONE ? parseInt(process) : deviceIndex();
            long id = stream == HostEvent.NONE ? parseInt(thread.replace("stream ", "")) : stream;
            trace.device(
                    kind,
                    name,
                    new DeviceStream(index, id),
                    nanos("ts", time),
                    duration(),
                    new DeviceEvent.DeviceArgs(correlation, external, bytes));
        }

        private int deviceIndex() {
            if (device != (int) device) {
                throw invalid("(" + name + ") has the device " + device + ", which is not a GPU index");
            }
            return (int) device;
        }

        private void requireName() {
            if (name == null) {
                throw invalid("of category " + category + " has no name");
            }
        }

        private long duration() {
            long duration = nanos("dur", length);
            if (duration < 0) {
                throw invalid("(" + name + ") has the negative dur " + length);
            }
            return duration;
        }

        /** Converts decimal microseconds to nanoseconds. Further digits are rounding errors of the writer. */
        private long nanos(String member, String micros) {
            if (micros == null) {
                throw invalid("(" + name + ") has no " + member);
            }
            try {
                return new BigDecimal(micros)
                        .movePointRight(NANOS_DIGITS)
                        .setScale(0, RoundingMode.HALF_EVEN)
                        .longValueExact();
            } catch (ArithmeticException | NumberFormatException e) {
                throw invalid("(" + name + ") has the " + member + " '" + micros + "', which is not a time");
            }
        }

        private HostThread hostThread() {
            var key = new HostThread(process, thread);
            return threads.computeIfAbsent(key, k -> k);
        }

        private int parseInt(String number) {
            try {
                return Integer.decode(number);
            } catch (NumberFormatException e) {
                throw invalid("(" + name + ") has '" + number + "' instead of a number");
            }
        }
    }

    /** Reads a text or a number as text; returns an empty text for other values. */
    private String scalar() throws IOException {
        JsonToken token = json.peek();
        if (token == JsonToken.STRING || token == JsonToken.NUMBER) {
            return json.nextString();
        }
        json.skipValue();
        return "";
    }

    /** Reads a text or a number that occurs often, interned. */
    private String text() throws IOException {
        return names.computeIfAbsent(scalar(), t -> t);
    }

    private long integer(String member) throws IOException {
        JsonToken token = json.peek();
        if (token == JsonToken.NUMBER || token == JsonToken.STRING) {
            String number = json.nextString();
            try {
                return Long.parseLong(number);
            } catch (NumberFormatException e) {
                try {
                    // an address of 2^63 or above, or a number that Python wrote as floating point
                    return new BigDecimal(number).toBigIntegerExact().longValue();
                } catch (ArithmeticException | NumberFormatException other) {
                    throw invalid("has the " + member + " '" + number + "', which is not an integer");
                }
            }
        }
        json.skipValue();
        return HostEvent.NONE;
    }

    /** Reads nested arrays of numbers as JSON without spaces. */
    private String compactArray() throws IOException {
        var text = new StringBuilder();
        append(text);
        return names.computeIfAbsent(text.toString(), t -> t);
    }

    private void append(StringBuilder text) throws IOException {
        if (json.peek() != JsonToken.BEGIN_ARRAY) {
            text.append(scalar());
            return;
        }
        json.beginArray();
        text.append('[');
        for (boolean first = true; json.hasNext(); first = false) {
            if (!first) {
                text.append(',');
            }
            append(text);
        }
        json.endArray();
        text.append(']');
    }
}
