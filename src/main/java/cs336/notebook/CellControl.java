package cs336.notebook;

import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import jdk.jshell.execution.DirectExecutionControl;

/**
 * An execution engine for JShell that runs compiled snippets on the calling thread, returns their values as objects,
 * and can be interrupted.
 *
 * <p>JShell stores every variable in a static field of a separate class, which lives as long as the shell. A result
 * ({@code $3}) or the old value of a redeclared variable would therefore stay in memory forever. This class clears
 * those fields.
 */
final class CellControl extends DirectExecutionControl {
    /** The class that JShell generates for a snippet, not a nested class that the user wrote. */
    static final Pattern SNIPPET_CLASS = Pattern.compile("REPL\\.\\$JShell\\$\\w+");

    private static final Pattern RESULT = Pattern.compile("\\$\\d+");

    /** Time that a cell may take to end after {@link Thread#interrupt()} before it is stopped by force. */
    private static final long GRACE_MS = 250;

    /** Time to wait for a stop that was sent but not delivered yet. */
    private static final long LATE_STOP_MS = 1000;

    private final Map<String, Field> fieldOfVariable = new HashMap<>();
    private final Object lock = new Object();
    private Object value;
    private Thread running;
    private long invocation;
    private boolean stopSent;
    private boolean stopBeforeNext;

    /** Returns the value of the last snippet and drops the reference to it. */
    Object takeValue() {
        Object taken = value;
        value = null;
        return taken;
    }

    @Override
    public void load(ClassBytecodes[] classes)
            throws ClassInstallException, NotImplementedException, EngineTerminationException {
        ClassBytecodes[] changed = classes.clone();
        for (int i = 0; i < changed.length; i++) {
            changed[i] = new ClassBytecodes(classes[i].name(), ExitCalls.redirected(classes[i].bytecodes()));
        }
        super.load(changed);
        for (ClassBytecodes loaded : classes) {
            if (SNIPPET_CLASS.matcher(loaded.name()).matches()) {
                prepare(loaded.name());
            }
        }
    }

    /** Enables assertions, and clears the old values of the variables that the class declares. */
    private void prepare(String className) throws ClassInstallException {
        try {
            Class<?> loaded = findClass(className);
            loaded.getClassLoader().setDefaultAssertionStatus(true); // that of all classes of cells
            for (Field field : loaded.getDeclaredFields()) {
                Field old = isVariable(field) ? fieldOfVariable.put(field.getName(), field) : null;
                if (old != null) {
                    old.set(null, null);
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new ClassInstallException(e.toString(), new boolean[0]);
        }
    }

    private static boolean isVariable(Field field) {
        return Modifier.isStatic(field.getModifiers())
                && !Modifier.isFinal(field.getModifiers())
                && !field.getType().isPrimitive()
                && !field.isSynthetic()
                && field.trySetAccessible();
    }

    @Override
    protected String invoke(Method snippet) throws Exception {
        value = null;
        PrintStream out = System.out;
        PrintStream err = System.err;
        begin();
        boolean stopped = false;
        try {
            Magics.resume();
            value = snippet.invoke(null);
            return "";
        } catch (InvocationTargetException e) {
            stopped = e.getCause() instanceof StopRequest;
            throw e;
        } finally {
            end(stopped);
            Magics.pause();
            // The compiler of the next snippet needs streams.
            System.setOut(System.out == null ? out : System.out);
            System.setErr(System.err == null ? err : System.err);
            for (Field field : snippet.getDeclaringClass().getDeclaredFields()) {
                if (RESULT.matcher(field.getName()).matches() && isVariable(field)) {
                    fieldOfVariable.remove(field.getName());
                    field.set(null, null);
                }
            }
        }
    }

    /** Runs a task on the calling thread like a snippet: {@link #interrupt} ends it. */
    <T> T run(Callable<T> task) throws Exception {
        begin();
        boolean stopped = false;
        try {
            return task.call();
        } catch (StopRequest e) {
            stopped = true;
            throw e;
        } finally {
            end(stopped);
        }
    }

    /** Clears interrupts that arrived before this cell. */
    void beginCell() {
        synchronized (lock) {
            stopBeforeNext = false;
        }
    }

    private void begin() throws InvocationTargetException {
        synchronized (lock) {
            if (stopBeforeNext) {
                throw new InvocationTargetException(new StopRequest(new StackTraceElement[0]));
            }
            running = Thread.currentThread();
            invocation++;
            stopSent = false;
        }
    }

    /**
     * Waits for a stop that was sent but not delivered yet, so that it does not hit the compiler or the kernel later.
     */
    private void end(boolean stopped) {
        boolean outstanding = false;
        for (boolean ended = false; !ended; ) {
            try {
                synchronized (lock) {
                    running = null;
                    outstanding |= stopSent && !stopped;
                    stopSent = false;
                    lock.notifyAll();
                    ended = true;
                }
            } catch (StopRequest late) {
                stopped = true;
            }
        }
        if (outstanding && !stopped) {
            try {
                long limit = System.nanoTime() + LATE_STOP_MS * 1_000_000;
                while (System.nanoTime() < limit) {
                    Thread.onSpinWait();
                }
            } catch (StopRequest late) {
                // The late stop has been delivered and has no further effect.
            }
        }
        Thread.interrupted();
    }

    /**
     * Ends the running snippet: by {@link Thread#interrupt()}, then by force if it does not react. If no snippet is
     * running, the next snippet of the cell does not start.
     *
     * @throws IllegalStateException if this virtual machine cannot stop a thread
     */
    void interrupt() {
        synchronized (lock) {
            Thread target = running;
            long interrupted = invocation;
            if (target == null) {
                stopBeforeNext = true;
                return;
            }
            target.interrupt();
            long limit = System.nanoTime() + GRACE_MS * 1_000_000;
            while (isRunning(interrupted) && System.nanoTime() < limit) {
                try {
                    lock.wait(Math.max(1, (limit - System.nanoTime()) / 1_000_000));
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    break;
                }
            }
            if (isRunning(interrupted)) {
                stopSent = true;
                ThreadStop.raise(target, new StopRequest(target.getStackTrace()));
            }
        }
    }

    private boolean isRunning(long number) {
        return running != null && invocation == number;
    }
}
