package cs336.kernels.runtime;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A compiler of kernels with a cache in memory and one on disk. The cache key consists of the source, its includes, the
 * macros, the architecture and the version of NVRTC.
 */
public final class KernelCompiler {
    private static final KernelCompiler SHARED = new KernelCompiler(CubinFolder.ofUser());

    /** Source of a cubin: one of the two caches, or the compiler. */
    public enum CubinOrigin {
        MEMORY,
        DISK,
        COMPILER
    }

    /** A cubin and its origin. */
    public record CompilationResult(Cubin cubin, CubinOrigin origin) {}

    private final CubinFolder folder;
    private final Map<String, Cubin> memory = new ConcurrentHashMap<>();

    KernelCompiler(CubinFolder folder) {
        this.folder = folder;
    }

    /**
     * Returns the compiler of this process, which caches in the user's cache folder, by default
     * {@code ~/.cache/cs336/kernels}.
     */
    public static KernelCompiler shared() {
        return SHARED;
    }

    /** Returns a new compiler, with an empty cache in memory, that caches in this folder. */
    public static KernelCompiler in(Path folder) {
        return new KernelCompiler(new CubinFolder(folder));
    }

    /**
     * Returns the cubin of a source, compiled or from a cache.
     *
     * @param defines macros and their values, such as {@code Map.of("WIDTH", 1024, "ELEMENT", "bf16")}
     * @throws KernelCompileException if the source has errors
     * @throws IllegalStateException if NVRTC is not found, or does not support the architecture
     */
    public Cubin compile(KernelSource source, Map<String, ?> defines, GpuArchitecture architecture) {
        return find(source, defines, architecture).cubin();
    }

    /** Returns the same as {@link #compile}, with the origin of the cubin. */
    public CompilationResult find(KernelSource source, Map<String, ?> defines, GpuArchitecture architecture) {
        Objects.requireNonNull(architecture, "architecture must not be null");
        Objects.requireNonNull(defines, "defines must not be null");
        List<String> options = options(defines, architecture);
        String key = key(source, options);
        CubinOrigin[] origin = {CubinOrigin.MEMORY};
        Cubin cubin = memory.computeIfAbsent(
                key,
                k -> { // runs once, even if several threads need the kernel
                    Cubin stored = folder.get(key);
                    origin[0] = stored != null ? CubinOrigin.DISK : CubinOrigin.COMPILER;
                    if (stored != null) {
                        return stored;
                    }
                    Cubin compiled = Nvrtc.compile(source, options);
                    folder.put(key, compiled);
                    return compiled;
                });
        return new CompilationResult(cubin, origin[0]);
    }

    /** Returns whether {@link #find} would find the cubin in a cache. */
    boolean isCached(KernelSource source, Map<String, ?> defines, GpuArchitecture architecture) {
        String key = key(source, options(defines, architecture));
        return memory.containsKey(key) || folder.get(key) != null;
    }

    private static List<String> options(Map<String, ?> defines, GpuArchitecture architecture) {
        List<String> options =
                new ArrayList<>(List.of("--gpu-architecture=" + architecture, "--std=c++17", "--ptxas-options=-v"));
        if (Nvrtc.hasCache()) {
            options.add("--no-cache"); // NVRTC's own cache returns cubins without ptxas's resource usage
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
            throw new IllegalStateException("SHA-256 is missing", e);
        }
    }
}
