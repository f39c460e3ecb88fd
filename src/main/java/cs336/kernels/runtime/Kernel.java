package cs336.kernels.runtime;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.OperatorInterceptor;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.cuda.cudart.CUctx_st;
import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;
import org.bytedeco.pytorch.Tensor;

/** A kernel that is loaded on a GPU. Several threads may launch it. */
public final class Kernel {
    private static final int DEFAULT_SHARED_BYTES = 48 * 1024; // limit without cuFuncSetAttribute

    private final String name;
    private final CUfunc_st function;
    private final CUctx_st context;
    private final Device device;
    private final KernelResources resources;
    private final int[] parameterBytes;

    // The arguments of a launch. cuLaunchKernel copies them before it returns, so all launches use the same buffers.
    private final LongPointer values;
    private final PointerPointer<Pointer> argumentPointers;
    private final TensorMap.TensorMapBuffer[] maps; // null for parameters of other types
    private final CUctx_st scratch = MemoryScope.keep(new CUctx_st());
    private int allowedSharedBytes; // of dynamic shared memory

    Kernel(String name, CUfunc_st function, CUctx_st context, Device device, KernelResources resources) {
        this.name = name;
        this.function = function;
        this.context = context;
        this.device = device;
        this.resources = resources;
        allowedSharedBytes = DEFAULT_SHARED_BYTES - resources.sharedBytes();
        List<Integer> sizes = new ArrayList<>();
        Driver.in(context, scratch, () -> sizes.addAll(parameterBytes(function)));
        parameterBytes = sizes.stream().mapToInt(Integer::intValue).toArray();
        values = MemoryScope.keep(new LongPointer(Math.max(1, parameterBytes.length)));
        argumentPointers = MemoryScope.keep(new PointerPointer<>(Math.max(1, parameterBytes.length)));
        maps = new TensorMap.TensorMapBuffer[parameterBytes.length];
        for (int i = 0; i < parameterBytes.length; i++) {
            if (parameterBytes[i] == TensorMap.TensorMapBuffer.BYTES) {
                maps[i] = new TensorMap.TensorMapBuffer();
                argumentPointers.put(i, maps[i].map());
            } else {
                argumentPointers.put(i, values.getPointer(i));
            }
        }
    }

    /** Returns the resource usage that ptxas reported. */
    public KernelResources resources() {
        return resources;
    }

    /**
     * Returns the number of blocks that a multiprocessor of this GPU holds at a time, according to the driver.
     *
     * @param sharedBytes dynamic shared memory per block, in bytes
     */
    public synchronized int residentBlocks(BlockDim block, int sharedBytes) {
        int[] blocks = new int[1];
        Driver.in(context, scratch, () -> {
            allowSharedBytes(sharedBytes);
            Driver.check(
                    cudart.cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block.threads(), sharedBytes),
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor " + name);
        });
        return blocks[0];
    }

    /**
     * Launches the kernel asynchronously on PyTorch's current stream of this GPU.
     *
     * @param sharedBytes dynamic shared memory per block, in bytes
     * @param arguments arguments in the order of the kernel's parameters: {@link Tensor} (passed as the pointer to its
     *     first element), {@code Integer}, {@code Long}, {@code Float} or {@link TensorMap}. Shapes, strides and dtypes
     *     of tensors are not checked
     * @throws IllegalArgumentException if the number or size of the arguments differs from the kernel's parameters, or
     *     a tensor is on another device
     * @throws IllegalStateException if the driver reports an error; the message has CUDA's name of it. Also if the
     *     thread's operators are being recorded, unless a {@link cs336.torch.JavaOperator} launches the kernel
     */
    public void launch(GridDim grid, BlockDim block, int sharedBytes, Object... arguments) {
        try (var stream = LaunchStream.of(device)) {
            launch(stream, grid, block, sharedBytes, arguments);
        }
    }

    /**
     * Launches the kernel like {@link #launch(GridDim, BlockDim, int, Object...)} on a stream that is looked up once
     * for several launches.
     */
    public void launch(LaunchStream on, GridDim grid, BlockDim block, int sharedBytes, Object... arguments) {
        if (arguments.length != parameterBytes.length) {
            throw new IllegalArgumentException(
                    name + " takes " + parameterBytes.length + " arguments, not " + arguments.length);
        }
        if (OperatorInterceptor.isActive()) {
            throw new IllegalStateException(
                    "a launch of " + name + " cannot be recorded; call it in a JavaOperator, which can be recorded");
        }
        synchronized (this) {
            for (int i = 0; i < arguments.length; i++) {
                put(i, arguments[i]);
            }
            allowSharedBytes(sharedBytes);
            int result = cudart.cuLaunchKernel(
                    function,
                    grid.x(),
                    grid.y(),
                    grid.z(),
                    block.x(),
                    block.y(),
                    block.z(),
                    sharedBytes,
                    on.stream(),
                    argumentPointers,
                    (PointerPointer<?>) null);
            if (result != cudart.CUDA_SUCCESS) {
                Driver.check(result, "launch of " + shape(grid, block, sharedBytes));
            }
        }
        if (KernelLog.isOpen()) {
            KernelLog.noteLaunch(
                    name,
                    shape(grid, block, sharedBytes).substring(name.length()) + " on " + device,
                    resources.withDynamicShared(sharedBytes));
        }
    }

    private String shape(GridDim grid, BlockDim block, int sharedBytes) {
        return name + "<<<" + grid + ", " + block + ", " + sharedBytes + ">>>";
    }

    private void put(int i, Object argument) {
        int bytes;
        long bits;
        if (argument instanceof Tensor tensor) {
            requireSameDevice(i, tensor);
            bytes = Long.BYTES;
            Pointer data = tensor.data_ptr(); // null for a tensor without elements
            bits = data == null ? 0 : data.address();
        } else if (argument instanceof Long number) {
            bytes = Long.BYTES;
            bits = number;
        } else if (argument instanceof Integer number) {
            bytes = Integer.BYTES;
            bits = Integer.toUnsignedLong(number);
        } else if (argument instanceof Float number) {
            bytes = Float.BYTES;
            bits = Integer.toUnsignedLong(Float.floatToRawIntBits(number));
        } else if (argument instanceof TensorMap map && maps[i] != null) {
            requireSameDevice(i, map.tensor());
            maps[i].write(map);
            return;
        } else if (argument instanceof TensorMap) {
            bytes = TensorMap.TensorMapBuffer.BYTES;
            bits = 0;
        } else {
            throw new IllegalArgumentException("argument " + i + " of " + name
                    + " must be a Tensor, Integer, Long, Float or TensorMap, not "
                    + (argument == null ? "null" : argument.getClass().getSimpleName()));
        }
        if (bytes != parameterBytes[i]) {
            throw new IllegalArgumentException("argument " + i + " of " + name + " has " + bytes + " bytes as "
                    + argument.getClass().getSimpleName() + ", but the parameter has " + parameterBytes[i]);
        }
        values.put(i, bits);
    }

    private void requireSameDevice(int i, Tensor tensor) {
        if (tensor.is_cuda() && Driver.deviceIndex(tensor) == device.index()) {
            return;
        }
        try (var where = tensor.device()) {
            throw new IllegalArgumentException("argument " + i + " of " + name + " is on "
                    + where.str().getString() + ", but the kernel is on " + device);
        }
    }

    /** Opts in to more than 48 KiB of shared memory, static and dynamic together, if a launch needs it. */
    private void allowSharedBytes(int bytes) {
        if (bytes > allowedSharedBytes) {
            Driver.check(
                    cudart.cuFuncSetAttribute(function, cudart.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
                    bytes + " bytes of shared memory for " + name);
            allowedSharedBytes = bytes;
        }
    }

    /** Returns the size of each parameter, which the driver reads from the cubin. */
    private static List<Integer> parameterBytes(CUfunc_st function) {
        List<Integer> sizes = new ArrayList<>();
        try (SizeTPointer offset = new SizeTPointer(1);
                var size = new SizeTPointer(1)) {
            while (cudart.cuFuncGetParamInfo(function, sizes.size(), offset, size) == cudart.CUDA_SUCCESS) {
                sizes.add((int) size.get());
            }
        }
        return sizes;
    }

    @Override
    public String toString() {
        return name + " on " + device + ": " + resources;
    }
}
