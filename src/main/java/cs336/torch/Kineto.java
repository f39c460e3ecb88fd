package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.bytedeco.pytorch.ActivityTypeSet;
import org.bytedeco.pytorch.ExperimentalConfig;
import org.bytedeco.pytorch.ProfilerConfig;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ActivityType;
import org.bytedeco.pytorch.global.torch.ProfilerState;

/**
 * PyTorch's profiler (Kineto), which records operators of the dispatcher and, through CUPTI, kernels and CUDA calls.
 * Only one can run in a process. The presets bind its settings but not its start and stop functions, which are called
 * here by their mangled C++ names.
 *
 * <p>Callers must alternate {@link #start} and {@link #stop}; otherwise PyTorch throws a C++ exception, which aborts
 * the process.
 */
public final class Kineto {
    private static final byte USER_SCOPE = 7; // at::RecordScope::USER_SCOPE, ATen/record_function.h

    private static final Function ENABLE;
    private static final Function DISABLE;
    private static final Function SAVE;
    private static final Function DESTROY;
    private static final Function FREE;

    static {
        NativeLibrary library = Torch.library("libtorch_cpu.so");
        // torch::autograd::profiler::…, torch/csrc/autograd/profiler_kineto.h
        String namespace = "_ZN5torch8autograd8profiler";
        ENABLE = library.getFunction(namespace + "14enableProfilerERKNS_8profiler4impl14ProfilerConfigE"
                + "RKSt3setINS3_12ActivityTypeESt4lessIS8_ESaIS8_EE"
                + "RKSt13unordered_setIN2at11RecordScopeESt4hashISH_ESt8equal_toISH_ESaISH_EE");
        DISABLE = library.getFunction(namespace + "15disableProfilerEv");
        SAVE = library.getFunction(
                namespace + "14ProfilerResult4saveERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
        DESTROY = library.getFunction(namespace + "14ProfilerResultD1Ev");
        FREE = library.getFunction("_ZdlPv"); // operator delete
    }

    private Kineto() {}

    /**
     * The settings of a recording.
     *
     * @param cuda whether to record kernels, copies and CUDA calls
     * @param operators whether to record operators; otherwise only user annotations
     * @param shapes whether to record the input shapes of operators
     * @param memory whether to record each allocation; PyTorch reports allocations only to the profiler of the starting
     *     thread, so such a recording has no operators of other Java threads
     */
    public record Settings(boolean cuda, boolean operators, boolean shapes, boolean memory) {}

    /** Returns whether PyTorch's profiler runs on this thread, including one that other code has started. */
    public static boolean isRunning() {
        return torch.profilerEnabled();
    }

    /** Starts recording. */
    public static void start(Settings settings) {
        try (var scope = MemoryScope.open()) {
            var activities = new ActivityTypeSet();
            activities.insert(ActivityType.CPU);
            if (settings.cuda) {
                activities.insert(ActivityType.CUDA);
            }
            var experimental = new ExperimentalConfig();
            experimental.profile_all_threads(!settings.memory);
            boolean stacks = false;
            boolean flops = false;
            boolean modules = false;
            var config = new ProfilerConfig(
                    ProfilerState.KINETO.value,
                    settings.shapes,
                    settings.memory,
                    stacks,
                    flops,
                    modules,
                    experimental,
                    "");
            torch.prepareProfiler(config, activities);
            ENABLE.invokeVoid(new Object[] {pointer(config), pointer(activities), scopes(settings.operators)});
        }
    }

    /** Stops recording and writes the trace as Chrome JSON. Must be called on the thread that started the recording. */
    public static void stop(Path file) {
        var result = new Memory(Long.BYTES); // std::unique_ptr<ProfilerResult>, the hidden result argument
        DISABLE.invokeVoid(new Object[] {result});
        Pointer recorded = result.getPointer(0);
        try (Memory path = bytes(file.toString());
                Memory string = string(path)) {
            SAVE.invokeVoid(new Object[] {recorded, string});
        } finally {
            DESTROY.invokeVoid(new Object[] {recorded});
            FREE.invokeVoid(new Object[] {recorded});
            result.close();
        }
    }

    private static Pointer pointer(org.bytedeco.javacpp.Pointer object) {
        return new Pointer(object.address());
    }

    /**
     * Returns a {@code std::unordered_set<at::RecordScope>} of libstdc++: an empty one, which selects all scopes, or
     * one with the scope of user annotations.
     */
    private static Memory scopes(boolean all) {
        var set = new Memory(72);
        set.clear();
        long firstNode = 16;
        long singleBucket = 48;
        long node = 56; // pointer to the next node, then the value
        set.setPointer(0, set.share(singleBucket));
        set.setLong(8, 1); // number of buckets
        set.setFloat(32, 1); // maximum load factor
        if (!all) {
            set.setPointer(singleBucket, set.share(firstNode)); // what precedes the bucket's first node
            set.setPointer(firstNode, set.share(node));
            set.setLong(24, 1); // number of elements
            set.setByte(node + 8, USER_SCOPE);
        }
        return set;
    }

    private static Memory bytes(String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        var bytes = new Memory(utf8.length + 1L);
        bytes.write(0, utf8, 0, utf8.length);
        bytes.setByte(utf8.length, (byte) 0);
        return bytes;
    }

    /** Returns a {@code std::string} of libstdc++ that refers to these bytes: pointer, length, capacity. */
    private static Memory string(Memory bytes) {
        var string = new Memory(32);
        string.clear();
        string.setPointer(0, bytes);
        string.setLong(8, bytes.size() - 1);
        string.setLong(16, bytes.size() - 1);
        return string;
    }
}
