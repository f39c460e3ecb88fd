package cs336.kernels.runtime;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Compiles kernels, each just once: what was compiled before comes from memory, or from a folder that outlives the
 * process. A kernel counts as the same if source, includes, defines, architecture and the compiler's version are.
 */
public final class KernelCompiler {
    private static final KernelCompiler SHARED = new KernelCompiler(CubinFolder.ofUser());

    /** Where a cubin came from. */
    public enum CubinOrigin {
        MEMORY,
        DISK,
        COMPILER
    }

    /** A cubin, and where it came from. */
    public record CompilationResult(Cubin cubin, CubinOrigin origin) {}

    private final CubinFolder folder;
    private final Map<String, Cubin> memory = new ConcurrentHashMap<>();

    KernelCompiler(CubinFolder folder) {
        this.folder = folder;
    }

    /** The compiler of this process, with the user's folder: {@code ~/.cache/cs336/kernels}. */
    public static KernelCompiler shared() {
        return SHARED;
    }

    /** A compiler with nothing in memory and a folder of its own. */
    public static KernelCompiler in(Path folder) {
        return new KernelCompiler(new CubinFolder(folder));
    }

    /**
     * Compiles a source, unless that has been done.
     *
     * @param defines macros and their values: {@code Map.of("WIDTH", 1024, "ELEMENT", "bf16")}
     * @throws KernelCompileException if the source has errors
     * @throws IllegalStateException if NVRTC is not there
     */
    public Cubin compile(KernelSource source, Map<String, ?> defines, GpuArchitecture architecture) {
        return find(source, defines, architecture).cubin();
    }

    /** The same, saying where the cubin came from. */
    public CompilationResult find(KernelSource source, Map<String, ?> defines, GpuArchitecture architecture) {
        List<String> options = options(defines, architecture);
        String key = key(source, options);
        CubinOrigin[] origin = {CubinOrigin.MEMORY};
        Cubin cubin = memory.computeIfAbsent(
                key,
                k -> { // once, also where several threads ask
                    Cubin stored = folder.get(key);
                    origin[0] = stored != null ? CubinOrigin.DISK : CubinOrigin.COMPILER;
                    if (stored != null) return stored;
                    Cubin compiled = Nvrtc.compile(source, options);
                    folder.put(key, compiled);
                    return compiled;
                });
        return new CompilationResult(cubin, origin[0]);
    }

    private static List<String> options(Map<String, ?> defines, GpuArchitecture architecture) {
        List<String> options =
                new ArrayList<>(List.of("--gpu-architecture=" + architecture, "--std=c++17", "--ptxas-options=-v"));
        if (Nvrtc.hasCache()) {
            options.add("--no-cache"); // what it finds there comes without ptxas's count of registers
        }
        SortedMap<String, Object> sorted = new TreeMap<>(defines);
        sorted.forEach((name, value) -> options.add("-D" + name + "=" + value));
        return options;
    }

    private static String key(KernelSource source, List<String> options) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            List<String> parts = new ArrayList<>(List.of(Nvrtc.version(), source.name(), source.text()));
            source.includes().forEach((name, text) -> parts.addAll(List.of(name, text)));
            parts.addAll(options);
            for (String part : parts) {
                digest.update(part.getBytes(StandardCharsets.UTF_8));
                digest.update((byte) 0);
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }
}
