package cs336.torch;

import com.sun.jna.NativeLibrary;

/** The C environment, which native libraries read and Java cannot write by itself. */
public final class NativeEnvironment {
    private NativeEnvironment() {}

    /** Sets a variable unless the user has. Libraries read theirs when they are loaded or first used. */
    public static void setDefault(String name, String value) {
        int keepTheUsersChoice = 0;
        NativeLibrary.getProcess().getFunction("setenv").invokeInt(new Object[] {name, value, keepTheUsersChoice});
    }
}
