package cs336.kernels.norms;

import cs336.basics.NnModule;
import cs336.torch.DType;
import cs336.torch.Device;

/**
 * An implementation of an operation on rows that a {@link RowCommand} measures; its name is {@link Object#toString}.
 */
interface RowImplementation {
    /** Returns a new layer for rows of this width. */
    NnModule create(int width, Device device, DType dtype);
}
