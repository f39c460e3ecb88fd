package cs336.torch;

import com.sun.jna.NativeLibrary;

/** The C environment variables, which native libraries read and Java has no method to set. */
public final class NativeEnvironment {
    private NativeEnvironment() {}

    /**
     * Sets a variable if the user has not set it. Libraries read their variables when they are loaded or first used.
     */
    public static void setDefault(String name, String value) {
        int doNotOverwrite = 0;
        NativeLibrary.getProcess().getFunction("setenv").invokeInt(new Object[] {name, value, doNotOverwrite});
    }
}
