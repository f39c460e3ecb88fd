package cs336.compile.program;

import cs336.torch.DType;
import cs336.torch.DeviceKind;

/**
 * The contents of a storage between two writes. An operation that writes in place ends one value and creates the next
 * one, so that a value never changes.
 */
public final class ProgramValue {
    private final int id;
    private final String name;
    private final Layout layout;
    private final DeviceKind device; // null: that of the program
    private final ProgramValue overwritten;
    private final ProgramValue root;

    /**
     * Creates the first value of a storage.
     *
     * @param id unique in the program
     * @param name the name in printed programs
     * @param layout the layout of the tensor that the operation returned, or that the program received
     * @param device where that tensor is
     */
    public ProgramValue(int id, String name, Layout layout, DeviceKind device) {
        this.id = id;
        this.name = name;
        this.layout = layout;
        this.device = device;
        overwritten = null;
        root = this;
    }

    /** Creates the first value of a storage on the device for which the program is compiled. */
    public ProgramValue(int id, String name, Layout layout) {
        this(id, name, layout, null);
    }

    /** Creates the first value of a storage, which printed programs name by its id. */
    public ProgramValue(int id, Layout layout) {
        this(id, "%" + id, layout);
    }

    /** Creates the value that replaces another one in its storage. */
    public ProgramValue(int id, ProgramValue overwritten) {
        this.id = id;
        name = overwritten.root.name + "'" + id;
        layout = overwritten.layout;
        device = overwritten.device;
        this.overwritten = overwritten;
        root = overwritten.root;
    }

    /** Returns the index of this value among those of its program. */
    public int id() {
        return id;
    }

    /** Returns the layout of the tensor that first held the value. */
    public Layout layout() {
        return layout;
    }

    /** Returns the dtype of the tensor that first held the value. */
    public DType dtype() {
        return layout.dtype();
    }

    /** Returns the sizes of the dimensions of the tensor that first held the value. */
    public long[] shape() {
        return layout.shape();
    }

    /** Returns whether the value is on the device of a program that runs on this kind of device. */
    public boolean isOn(DeviceKind ofProgram) {
        return device == null || device == ofProgram;
    }

    /** Returns the first value of this storage. */
    public ProgramValue root() {
        return root;
    }

    /** Returns the value that was in the storage before, or null if this is the storage's first value. */
    public ProgramValue overwritten() {
        return overwritten;
    }

    @Override
    public String toString() {
        return name;
    }
}
